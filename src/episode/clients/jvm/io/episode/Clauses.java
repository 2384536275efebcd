package io.episode;

import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Whether a text has episode's clauses. The rules, and the other half of this test, are in
 * episode/lang/own_clauses.py; tests/clients/texts.toml has texts for both.
 */
public final class Clauses {
  /** Every text with a clause has one of these words. A text without them is not read any further. */
  private static final String[] RARE = {"MATCH_RECOGNIZE", "PATTERN", "DEFINE", "STREAM"};

  private static final Map<String, String> STREAMS =
      Map.of("CREATE", "STREAM", "DROP", "STREAM", "SHOW", "STREAMS", "DESCRIBE", "STREAM", "DESC", "STREAM");
  private static final Set<String> INPUTS = Set.of("PARTITION", "ORDER", "START", "TIME", "TYPE");
  private static final Set<String> CLAUSES =
      Set.of("PARTITION", "ORDER", "MEASURES", "ONE", "ALL", "AFTER", "INITIAL", "SEEK", "MAXIMAL", "INCREMENTAL",
          "PATTERN", "SUBSET", "DEFINE");
  private static final Set<String> BEFORE_TABLES = Set.of("FROM", "JOIN", "LATERAL", "STREAM", "TABLE", "USING");
  private static final Set<String> OTHER_QUERIES = Set.of("SELECT", "INSERT", "MATCH_RECOGNIZE");

  private final List<Tokens.Token> tokens;

  private Clauses(List<Tokens.Token> tokens) {
    this.tokens = tokens;
  }

  public static boolean areIn(String text) {
    return hasRareWord(text) && new Clauses(Tokens.of(text)).areOwn();
  }

  private static boolean hasRareWord(String text) {
    for (int at = 0; at < text.length(); at++) {
      switch (Character.toUpperCase(text.charAt(at))) {
        case 'M': case 'P': case 'D': case 'S':
          for (String word : RARE) {
            if (text.regionMatches(true, at, word, 0, word.length())) {
              return true;
            }
          }
          break;
        default:
      }
    }
    return false;
  }

  private boolean areOwn() {
    boolean window = false;
    if (beginAsOwn()) {
      return true;
    }
    for (int at = 0; at < tokens.size() - 3; at++) {
      switch (tokens.get(at).upper) {
        case "MATCH_RECOGNIZE":
          if (isRowPattern(at)) {
            return true;
          }
          break;
        case "EVENTS": case "SITUATIONS":
          if (isTablePattern(at)) {
            return true;
          }
          break;
        case "WINDOW":
          window = true;
          break;
        case "OVER": case "AS":
          if ((window || tokens.get(at).is("OVER")) && tokens.get(at + 1).isOneOf("(") && hasPattern(at + 2, true)) {
            return true;
          }
          break;
        default:
      }
    }
    return false;
  }

  private boolean beginAsOwn() {
    Tokens.Token second = tokens.get(1);
    String first = tokens.get(0).upper;
    if (first.equals("PATTERN") || first.equals("DEFINE")) {
      return true;
    }
    if (STREAMS.containsKey(first)) {
      return second.is(STREAMS.get(first)) && (!first.startsWith("DESC") || tokens.get(2).isName());
    }
    if (!first.equals("FROM")) {
      return INPUTS.contains(first) && (second.is("BY") || second.is("BETWEEN"));
    }
    boolean pattern = false;
    for (int at = level(0); at >= 0; at = nextOnLevel(at)) {
      Tokens.Token token = tokens.get(at), following = tokens.get(at + 1);
      if (OTHER_QUERIES.contains(token.upper) || (token.isOneOf("|") && following.isOneOf(">"))) {
        return false;
      }
      boolean named = at > 0 && (tokens.get(at - 1).isOneOf(".") || tokens.get(at - 1).is("AS"));
      boolean ends = following.kind == Tokens.Kind.END || following.isOneOf(",");
      pattern |= token.is("PATTERN") && !named && !ends;
    }
    return pattern;
  }

  private boolean isRowPattern(int at) {
    Tokens.Token following = tokens.get(at + 1);
    if (at > 0 && tokens.get(at - 1).isOneOf(".")) {
      return false;
    }
    if (!following.isOneOf("(")) {
      return following.is("PARTITION") || following.is("MEASURES") || following.is("PATTERN");
    }
    Tokens.Token second = tokens.get(Math.min(at + 3, tokens.size() - 1));
    boolean begins = CLAUSES.contains(tokens.get(at + 2).upper) && !second.isOneOf(",)");
    return begins || second.is("BY") || hasPattern(at + 2, false);
  }

  private boolean isTablePattern(int at) {
    Tokens.Token before = at > 0 ? tokens.get(at - 1) : null;
    boolean table = before == null || BEFORE_TABLES.contains(before.upper) || before.isOneOf("(,");
    if (!tokens.get(at + 1).isOneOf("(") || !table) {
      return false;
    }
    Tokens.Token first = tokens.get(at + 2), second = tokens.get(at + 3);
    boolean begins = first.is("PATTERN") || first.is("DEFINE") || first.is("FROM");
    return !second.isOneOf(".,=)") && (begins || second.is("BY") || second.is("BETWEEN"));
  }

  /** Do the brackets whose first token is given hold `PATTERN (`? define: or `DEFINE name AS`. */
  private boolean hasPattern(int begin, boolean define) {
    for (int at = level(begin); at >= 0; at = nextOnLevel(at)) {
      if (tokens.get(at).is("PATTERN") && tokens.get(at + 1).isOneOf("(")) {
        return true;
      }
      if (define && tokens.get(at).is("DEFINE") && tokens.get(at + 2).is("AS")) {
        return true;
      }
    }
    return false;
  }

  /** The first token from this one on that is in no further brackets; -1: the brackets around it end before. */
  private int level(int at) {
    for (int depth = 0; at < tokens.size() - 3; at++) {
      Tokens.Token token = tokens.get(at);
      depth += token.isOneOf("([{") ? 1 : token.isOneOf(")]}") ? -1 : 0;
      if (depth <= 0) {
        return depth < 0 ? -1 : at;
      }
    }
    return -1;
  }

  private int nextOnLevel(int at) {
    return level(at + 1);
  }
}
