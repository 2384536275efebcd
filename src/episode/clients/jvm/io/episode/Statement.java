package io.episode;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement that waits for its plan, and the planner's answer.
 *
 * <p>The answer is the statement in pieces: each is a piece of the user's text, and what Spark's parser gets in its
 * place. Most pieces are the same in both; a pattern is replaced by the name of a relation, whose plan is given.
 */
public final class Statement {
  private static final int MOST_ATTEMPTS = 3;

  private final SparkSession session;
  private final ParserInterface parser;
  private final String text;
  private final Object parameters;
  private final CompletableFuture<Boolean> answer = new CompletableFuture<>();
  private int attempts = 1;
  private volatile boolean begun;
  private List<String> original;
  private List<String> written;
  private Map<String, Object> plans;
  private Object remaining;

  /** parser: Spark's alone. parameters: Spark's context of parameters, or null. */
  Statement(SparkSession session, ParserInterface parser, String text, Object parameters) {
    this.session = session;
    this.parser = parser;
    this.text = text;
    this.parameters = parameters;
    this.remaining = parameters;
  }

  /** Wait for the answer; what the planner refuses is thrown. False: the planner ended before it began to plan. */
  boolean await() throws Throwable {
    try {
      return answer.get();
    } catch (ExecutionException error) {
      throw error.getCause().fillInStackTrace(); // that of who asked, not of the planner
    }
  }

  /** The same statement for the next planner. */
  Statement again() {
    Statement next = new Statement(session, parser, text, parameters);
    next.attempts = attempts + 1;
    return next;
  }

  boolean isLeft() {
    return original == null;
  }

  List<String> originalPieces() {
    return original;
  }

  List<String> writtenPieces() {
    return written;
  }

  Map<String, Object> plans() {
    return plans;
  }

  String written() {
    return String.join("", written);
  }

  /**
   * The place in the user's text of a place in the written text: inside a piece that is written differently, its begin
   * or its end.
   */
  int originalPlace(int place, boolean isEnd) {
    int before = 0, from = 0;
    for (int at = 0; at < written.size(); at++) {
      int length = written.get(at).length(), own = original.get(at).length();
      boolean inside = isEnd ? place <= from + length : place < from + length;
      if (inside && original.get(at).equals(written.get(at))) {
        return before + place - from;
      }
      if (inside) {
        return isEnd && place > from ? before + own : before;
      }
      from += length;
      before += own;
    }
    return before;
  }

  /** The parameters that are not in patterns, for Spark's parser. */
  Object parameters() {
    return remaining;
  }

  /** The planner has ended: an error, unless the statement can be given to another one. */
  void giveUp(boolean mayRepeat, Throwable error) {
    if (mayRepeat && !begun && attempts < MOST_ATTEMPTS) {
      answer.complete(false);
    } else {
      answer.completeExceptionally(error);
    }
  }

  // Called by the planner.

  public SparkSession session() {
    return session;
  }

  /** The statement as Spark alone parses it. */
  public Object parsedBySpark() throws Throwable {
    if (parameters == null) {
      return parser.parsePlan(text);
    }
    for (Method method : ParserInterface.class.getMethods()) {
      if (method.getName().equals("parsePlanWithParameters") && !Modifier.isStatic(method.getModifiers())) {
        return EpisodeParser.call(parser, method, text, parameters);
      }
    }
    throw new IllegalStateException("Spark's parser takes no parameters");
  }

  /** The first thing that the planner asks for. */
  public String text() {
    begun = true;
    return text;
  }

  /** The expressions of named parameters as a Scala map. */
  public Object named() throws ReflectiveOperationException {
    return isOfClass("NamedParameterContext") ? params() : null;
  }

  /** The expressions of positional parameters as a Scala sequence. */
  public Object positional() throws ReflectiveOperationException {
    return isOfClass("PositionalParameterContext") ? params() : null;
  }

  private boolean isOfClass(String name) {
    return parameters != null && parameters.getClass().getSimpleName().equals(name);
  }

  private Object params() throws ReflectiveOperationException {
    return parameters.getClass().getMethod("params").invoke(parameters);
  }

  /** Positional parameters have names from now on: _1, _2, … */
  public void nameParameters() throws ReflectiveOperationException {
    Map<String, Object> named = new LinkedHashMap<>();
    for (Iterator<?> each = ((Seq<?>) positional()).iterator(); each.hasNext(); ) {
      named.put("_" + (named.size() + 1), each.next());
    }
    String name = parameters.getClass().getName().replace("PositionalParameterContext", "NamedParameterContext");
    Object map = scala.collection.immutable.Map.from(CollectionConverters.asScala(named));
    remaining = Class.forName(name, true, parameters.getClass().getClassLoader())
        .getConstructor(scala.collection.immutable.Map.class)
        .newInstance(map);
  }

  /** The statement has no clause of episode: it is left to Spark. */
  public void leave() {
    answer.complete(true);
  }

  /** original, written: the pieces. plans: by the names of their relations in the written pieces. */
  public void planned(List<String> original, List<String> written, Map<String, Object> plans) {
    this.original = List.copyOf(original);
    this.written = List.copyOf(written);
    this.plans = Map.copyOf(plans);
    answer.complete(true);
  }

  /**
   * kind: syntax, or another one of episode's errors. line, column, begin, end: the place in the text, from 1 and from
   * 0, end included; line 0: no place.
   */
  public void refuse(String kind, String message, int line, int column, int begin, int end) {
    answer.completeExceptionally(Errors.of(kind, message, text, line, column, begin, end));
  }
}
