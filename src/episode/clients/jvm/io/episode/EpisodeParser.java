package io.episode;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.internal.VariableSubstitution;

/**
 * A parser that plans statements with episode's clauses, and leaves all others to Spark's parser without a copy.
 *
 * <p>The methods of ParserInterface differ between the versions of Spark: a proxy has those of the version that runs.
 */
final class EpisodeParser implements InvocationHandler {
  private final SparkSession session;
  private final ParserInterface parser;

  private EpisodeParser(SparkSession session, ParserInterface parser) {
    this.session = session;
    this.parser = parser;
  }

  static ParserInterface around(SparkSession session, ParserInterface parser) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            EpisodeParser.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            new EpisodeParser(session, parser));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "parsePlan": // before Spark 4.3, and in commands
      case "parsePlanWithParameters":
        return Clauses.areIn((String) arguments[0])
            ? planned(session, method, arguments)
            : call(parser, method, arguments);
      case "parseQuery": // with which the catalog reads the text of a view
        return Clauses.areIn((String) arguments[0])
            ? planned(Views.reader(session), method, arguments)
            : call(parser, method, arguments);
      default:
        return call(parser, method, arguments);
    }
  }

  /** The plan of a statement: its patterns planned by episode, everything else parsed by Spark. */
  private Object planned(SparkSession reader, Method method, Object[] arguments) throws Throwable {
    String text = (String) arguments[0];
    if (text.contains("${")) {
      text = new VariableSubstitution().substitute(text); // as Spark's parser does first
    }
    Statement statement;
    try {
      Object parameters = arguments.length > 1 ? arguments[1] : null;
      statement = Planner.plan(new Statement(reader, parser, text, parameters));
    } catch (ParseException | RuntimeException error) {
      throw error;
    } catch (AnalysisException error) {
      return new FailedPlan(error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return new FailedPlan(Errors.analysis("The statement was cancelled while it was planned."));
    }
    if (statement.isLeft()) {
      return call(parser, method, arguments);
    }
    Object[] written = arguments.clone();
    written[0] = statement.written();
    if (arguments.length > 1) {
      written[1] = statement.parameters();
    }
    try {
      return new Placeholders(statement).replace(call(parser, method, written));
    } catch (ParseException error) {
      throw Errors.inOriginal(error, statement);
    }
  }

  /** Call a method of a parser; its errors are thrown as they are. */
  static Object call(ParserInterface parser, Method method, Object... arguments) throws Throwable {
    try {
      return method.invoke(parser, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }
}
