package io.episode;

import java.util.ArrayList;
import java.util.List;

/**
 * The tokens of a text up to the first place that cannot be read. Strings, quoted names, comments and hints begin and
 * end where Spark's lexer lets them begin and end, and `//` comments, curly quotes and `{--}` are those of printed event
 * patterns, as in episode/lang/lexer.py.
 */
final class Tokens {
  enum Kind {
    NAME,
    QUOTED,
    STRING,
    NUMBER,
    SYMBOL,
    END
  }

  /** upper: the upper-cased text of a name without quotes, else empty. symbol: the character of a symbol, else 0. */
  static final class Token {
    final Kind kind;
    final String upper;
    final int symbol;

    Token(Kind kind, String upper, int symbol) {
      this.kind = kind;
      this.upper = upper;
      this.symbol = symbol;
    }

    boolean is(String word) {
      return upper.equals(word);
    }

    boolean isOneOf(String symbols) {
      return symbol != 0 && symbols.indexOf(symbol) >= 0;
    }

    boolean isName() {
      return kind == Kind.NAME || kind == Kind.QUOTED;
    }
  }

  private static final Token END = new Token(Kind.END, "", 0);
  private static final String OPENING_QUOTES = "‘’“”";
  private static final String SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  private static final String WHITE_SPACE = " \t\n\f\r\u000b\u00a0\u1680\u2028\u202f\u205f\u3000";

  private final String text;
  private final List<Token> found = new ArrayList<>();
  private int at;

  private Tokens(String text) {
    this.text = text;
  }

  /** The tokens of a text, and some of kind END, so that each has three after it. */
  static List<Token> of(String text) {
    Tokens tokens = new Tokens(text);
    tokens.read();
    tokens.found.addAll(List.of(END, END, END));
    return tokens.found;
  }

  private void read() {
    boolean hint = false;
    while (skip() && at < text.length()) {
      if (!hint && text.startsWith("/*+", at)) {
        hint = true;
        at += 3;
      } else if (text.startsWith("*/", at)) {
        if (!hint) {
          return;
        }
        hint = false;
        at += 2;
      } else {
        Token token = next();
        if (token == null) {
          return;
        }
        if (!hint) {
          found.add(token);
        }
      }
    }
  }

  /** Skip white space and comments; false: a comment does not end. */
  private boolean skip() {
    while (at < text.length()) {
      char one = text.charAt(at);
      if (WHITE_SPACE.indexOf(one) >= 0 || (one >= '\u2000' && one <= '\u200a')) {
        at++;
      } else if (text.startsWith("--", at) && !(text.startsWith("--}", at) && at > 0 && text.charAt(at - 1) == '{')) {
        skipLine(true);
      } else if (text.startsWith("//", at)) {
        skipLine(false);
      } else if (text.startsWith("/*", at) && !text.startsWith("/*+", at)) {
        if (!skipBrackets()) {
          return false;
        }
      } else {
        return true;
      }
    }
    return true;
  }

  /** continues: a backslash before the end of the line continues the comment on the next one. */
  private void skipLine(boolean continues) {
    while (at < text.length() && text.charAt(at) != '\n' && text.charAt(at) != '\r') {
      at += continues && text.startsWith("\\\n", at) ? 2 : 1;
    }
  }

  private boolean skipBrackets() {
    int depth = 1;
    at += 2;
    while (at < text.length()) {
      if (text.startsWith("*/", at)) {
        at += 2;
        if (--depth == 0) {
          return true;
        }
      } else if (text.startsWith("/*", at) && !text.startsWith("/*+", at)) {
        depth++;
        at += 2;
      } else {
        at++;
      }
    }
    return false;
  }

  /** The token here; null: it does not end. */
  private Token next() {
    int one = text.codePointAt(at);
    char after = at + 1 < text.length() ? text.charAt(at + 1) : ' ';
    if ("rRxX".indexOf(one) >= 0 && (after == '\'' || after == '"')) {
      at++;
      return string(after, "", one == 'r' || one == 'R');
    }
    if (one == '_' || Character.isLetter(one)) {
      int begin = at;
      skipWord();
      return new Token(Kind.NAME, upper(begin, at), 0);
    }
    if (one == '\'' || one == '"') {
      return string((char) one, "", false);
    }
    if (OPENING_QUOTES.indexOf(one) >= 0) {
      return string((char) one, one < '“' ? "‘’" : "“”", false);
    }
    if (one == '`') {
      return quotedName();
    }
    if (isDigit(one) || (one == '.' && isDigit(after))) {
      return number();
    }
    if (SUPERSCRIPTS.indexOf(one) >= 0) {
      at++;
      return new Token(Kind.NUMBER, "", 0);
    }
    if (one == '$') {
      String tag = dollars();
      if (tag != null) {
        int end = text.indexOf(tag, at + tag.length());
        at = end + tag.length();
        return end < 0 ? null : new Token(Kind.STRING, "", 0);
      }
    }
    at += Character.charCount(one);
    return new Token(Kind.SYMBOL, "", one);
  }

  /** quotes: those that close the string, if they are not the one that opens it. */
  private Token string(char quote, String quotes, boolean raw) {
    String closing = quotes.isEmpty() ? String.valueOf(quote) : quotes;
    for (at++; at < text.length(); at++) {
      char one = text.charAt(at);
      if (one == '\\' && !raw) {
        at++;
      } else if (closing.indexOf(one) >= 0) {
        boolean twice = !raw && quotes.isEmpty() && at + 1 < text.length() && text.charAt(at + 1) == quote;
        at++;
        if (!twice) {
          return new Token(Kind.STRING, "", 0);
        }
      }
    }
    return null;
  }

  private Token quotedName() {
    for (at++; (at = text.indexOf('`', at)) >= 0; at += 2) {
      if (!text.startsWith("``", at)) {
        at++;
        return new Token(Kind.QUOTED, "", 0);
      }
    }
    return null;
  }

  /** A number with the letters that directly follow it. */
  private Token number() {
    skipNumber();
    if (at + 1 < text.length() && text.charAt(at) == '.' && isDigit(text.charAt(at + 1))) {
      at++;
      skipNumber();
    } else if (at < text.length() && text.charAt(at) == '.') {
      at++;
    }
    return new Token(Kind.NUMBER, "", 0);
  }

  private void skipNumber() {
    int begin = at;
    skipWord();
    boolean exponent = at > begin && (text.charAt(at - 1) | 0x20) == 'e' && isDigit(text.charAt(begin));
    if (exponent && at + 1 < text.length() && "+-".indexOf(text.charAt(at)) >= 0 && isDigit(text.charAt(at + 1))) {
      at++;
      skipWord();
    }
  }

  private void skipWord() {
    while (at < text.length()) {
      int one = text.codePointAt(at);
      if (one != '_' && !isDigit(one) && !Character.isLetter(one)) {
        return;
      }
      at += Character.charCount(one);
    }
  }

  /** The text between two dollars, and both; null: they are not the begin of a string. */
  private String dollars() {
    int end = at + 1;
    while (end < text.length() && isTagLetter(text.charAt(end))) {
      end++;
    }
    return end < text.length() && text.charAt(end) == '$' ? text.substring(at, end + 1) : null;
  }

  private static boolean isTagLetter(char one) {
    return (one >= 'A' && one <= 'Z') || (one >= 'a' && one <= 'z') || one == 'ı' || one == 'ſ';
  }

  private static boolean isDigit(int one) {
    return one >= '0' && one <= '9';
  }

  /** Letter by letter, as in Spark: the letter ß stays as it is. */
  private String upper(int begin, int end) {
    StringBuilder upper = new StringBuilder(end - begin);
    text.substring(begin, end).codePoints().map(Character::toUpperCase).forEach(upper::appendCodePoint);
    return upper.toString();
  }
}
