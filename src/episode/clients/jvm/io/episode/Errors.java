package io.episode;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Errors of episode as Spark's own: parse errors and analysis errors with their place in the text. */
final class Errors {
  private static final String ANY_MESSAGE = "_LEGACY_ERROR_TEMP_3100"; // a condition whose text is <message>

  private Errors() {}

  static Exception of(String kind, String message, String text, int line, int column, int begin, int end) {
    if (line == 0) {
      return analysis(message);
    }
    Origin place = origin(line, column, begin, end, text);
    if (!kind.equals("syntax")) {
      return analysis(message, new QueryContext[] {place.context()});
    }
    return parse(text, place, ANY_MESSAGE, parameters(message));
  }

  /** An analysis error about the whole statement. */
  static AnalysisException analysis(String message) {
    return analysis(message, new QueryContext[0]);
  }

  private static AnalysisException analysis(String message, QueryContext[] context) {
    Option<Object> none = Option.empty();
    Option<String> condition = Option.apply(ANY_MESSAGE); // some clients need one
    return new AnalysisException(message, none, none, Option.empty(), condition, parameters(message), context);
  }

  private static Map<String, String> parameters(String message) {
    return Map.from(CollectionConverters.asScala(java.util.Map.of("message", message)));
  }

  /** An error of Spark's parser about the written text, with its place in the user's. */
  static Exception inOriginal(ParseException error, Statement statement) {
    Option<Object> index = error.start().startIndex(), stop = error.start().stopIndex();
    Option<Object> line = error.start().line(), column = error.start().startPosition();
    String text = String.join("", statement.originalPieces()), written = statement.written();
    int begin;
    if (index.isDefined()) {
      begin = (Integer) index.get();
    } else if (line.isDefined() && column.isDefined()) {
      begin = indexOf(written, (Integer) line.get(), (Integer) column.get());
    } else {
      return error.withCommand(text);
    }
    int last = stop.isDefined() ? (Integer) stop.get() : begin;
    int from = statement.originalPlace(Math.min(begin, written.length()), false);
    int to = Math.max(from, statement.originalPlace(Math.min(last + 1, written.length()), true) - 1);
    String before = text.substring(0, from);
    int row = (int) before.chars().filter(one -> one == '\n').count() + 1;
    Origin place = origin(row, from - before.lastIndexOf('\n') - 1, from, to, text);
    return parse(text, place, error.getCondition(), error.messageParameters());
  }

  private static int indexOf(String text, int line, int column) {
    int at = 0;
    for (int row = 1; row < line && text.indexOf('\n', at) >= 0; row++) {
      at = text.indexOf('\n', at) + 1;
    }
    return at + column;
  }

  /** The constructors of Origin and ParseException differ between the versions of Spark. */
  private static Origin origin(int line, int column, int begin, int end, String text) {
    Constructor<?> constructor = Origin.class.getConstructors()[0];
    Object[] fields = new Object[constructor.getParameterCount()];
    Arrays.fill(fields, Option.empty());
    Object[] known = {line, column, begin, end, text};
    for (int at = 0; at < known.length; at++) {
      fields[at] = Option.apply(known[at]);
    }
    return (Origin) create(constructor, fields);
  }

  private static Exception parse(String text, Origin place, String condition, Map<String, String> parameters) {
    for (Constructor<?> constructor : ParseException.class.getConstructors()) {
      Class<?>[] types = constructor.getParameterTypes();
      if (types[0] != Option.class || types[types.length - 1] != Map.class) {
        continue;
      }
      Object[] fields = new Object[types.length]; // command, start and in 4.0 stop, condition, parameters
      Arrays.fill(fields, place);
      fields[0] = Option.apply(text);
      fields[types.length - 2] = condition;
      fields[types.length - 1] = parameters;
      return (Exception) create(constructor, fields);
    }
    throw new IllegalStateException("Spark's ParseException has no constructor that episode knows");
  }

  private static Object create(Constructor<?> constructor, Object[] fields) {
    try {
      return constructor.newInstance(fields);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
