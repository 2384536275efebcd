package io.episode;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.spark.sql.SparkSession;
import scala.collection.immutable.Seq;

/**
 * A statement that waits for its plan, and the planner's answer.
 *
 * <p>The answer is the statement in pieces: each is a piece of the user's text, and what Spark's parser gets in its
 * place. Most pieces are the same in both; a pattern is replaced by the name of a relation, whose plan is given.
 */
public final class Statement {
  private final SparkSession session;
  private final String text;
  private final Object parameters;
  private final CompletableFuture<Boolean> answer = new CompletableFuture<>();
  private List<String> original;
  private List<String> written;
  private Map<String, Object> plans;
  private Object remaining;

  Statement(SparkSession session, String text, Object parameters) {
    this.session = session;
    this.text = text;
    this.parameters = parameters;
    this.remaining = parameters;
  }

  /** Wait for the answer of the planner; what it refuses is thrown. */
  Statement await() throws Throwable {
    try {
      answer.get();
    } catch (ExecutionException error) {
      throw error.getCause();
    }
    return this;
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

  void fail(Throwable error) {
    answer.completeExceptionally(error);
  }

  // Called by the planner.

  public SparkSession session() {
    return session;
  }

  public String text() {
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

  /** Keep the positional parameters from this one on: those before it are bound in patterns. */
  public void keepPositional(Seq<?> expressions) throws ReflectiveOperationException {
    remaining = parameters.getClass().getConstructor(Seq.class).newInstance(expressions);
  }

  /** The statement has no clause of episode: it is left to Spark. */
  public void leave() {
    answer.complete(false);
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
