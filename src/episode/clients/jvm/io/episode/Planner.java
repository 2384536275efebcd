package io.episode;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The Python process that plans statements: one per application, started with the first statement that needs it.
 *
 * <p>It connects to this process by py4j, on loopback and with a secret, takes statements from a queue, and plans them
 * in the sessions of their callers, several at the same time. It ends when its standard input does: with this process,
 * however that ends, and with Spark. If it dies, the statements that it had begun to plan fail, and others are given to
 * the next one.
 */
public final class Planner {
  private static final Logger LOG = LoggerFactory.getLogger(Planner.class);
  private static final String PYTHON = "spark.episode.python";
  private static final String WORKERS = "spark.pyspark.python";
  private static final int LINES = 20;

  /** Variables that would have the planner find another Spark than the one of this process. */
  private static final List<String> OTHER_SPARKS =
      List.of("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE", "PYSPARK_SUBMIT_ARGS");

  private static final AtomicInteger NUMBERS = new AtomicInteger();
  private static final Map<Integer, Planner> PLANNERS = new ConcurrentHashMap<>();
  private static Planner running;

  private final int number = NUMBERS.incrementAndGet();
  private final SparkContext context;
  private final Py4JServer server;
  private final Process process;
  private final String python;
  private final BlockingQueue<Statement> waiting = new LinkedBlockingQueue<>();
  private final Set<Statement> taken = ConcurrentHashMap.newKeySet();
  private final ArrayDeque<String> lines = new ArrayDeque<>();
  private volatile boolean connected;
  private boolean ended;

  /** Have a statement planned; the answer is in it. */
  static Statement plan(Statement statement) throws Throwable {
    running(statement.session().sparkContext()).add(statement);
    while (!statement.await()) {
      statement = statement.again();
      running(statement.session().sparkContext()).add(statement);
    }
    return statement;
  }

  private static synchronized Planner running(SparkContext context) throws AnalysisException {
    if (running != null && (running.context != context || !running.process.isAlive())) {
      running.stop();
      running = null;
    }
    if (running == null) {
      running = new Planner(context);
    }
    return running;
  }

  private Planner(SparkContext context) throws AnalysisException {
    this.context = context;
    PLANNERS.put(number, this);
    server = new Py4JServer(context.getConf());
    // py4j finds classes by the class loader of its threads, and they inherit that of this one.
    ClassLoader before = Thread.currentThread().getContextClassLoader();
    Thread.currentThread().setContextClassLoader(Planner.class.getClassLoader());
    try {
      server.start();
    } finally {
      Thread.currentThread().setContextClassLoader(before);
    }
    python = python(context.getConf());
    ProcessBuilder builder = new ProcessBuilder(python, "-m", "episode.clients.planner", Integer.toString(number));
    builder.environment().keySet().removeAll(OTHER_SPARKS);
    if (context.getConf().contains(WORKERS)) {
      builder.environment().put("PYSPARK_PYTHON", context.getConf().get(WORKERS)); // that of the tasks it plans
    }
    builder.environment().put("PYSPARK_GATEWAY_PORT", Integer.toString(server.getListeningPort()));
    builder.environment().put("PYSPARK_GATEWAY_SECRET", server.secret());
    process = start(builder.redirectErrorStream(true));
    Thread reader = new Thread(this::readLines, "episode-planner-" + number);
    reader.setDaemon(true);
    reader.start();
    context.addSparkListener(
        new SparkListener() {
          @Override
          public void onApplicationEnd(SparkListenerApplicationEnd end) {
            stop();
          }
        });
  }

  private Process start(ProcessBuilder builder) throws AnalysisException {
    try {
      return builder.start();
    } catch (IOException error) {
      server.shutdown();
      PLANNERS.remove(number);
      lines.add(error.getMessage());
      throw Errors.analysis(reason());
    }
  }

  /** The interpreter of the planner: its own setting, else that of Python workers. */
  private static String python(SparkConf conf) {
    return conf.get(PYTHON, conf.get(WORKERS, System.getenv().getOrDefault("PYSPARK_PYTHON", "python3")));
  }

  private void readLines() {
    try (BufferedReader reader =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        LOG.warn("{}", line);
        keep(line);
      }
      process.waitFor();
    } catch (IOException | InterruptedException error) {
      LOG.debug("The planner's output ended", error);
    }
    end();
  }

  private synchronized void keep(String line) {
    lines.add(line);
    if (lines.size() > LINES) {
      lines.remove();
    }
  }

  private synchronized void add(Statement statement) {
    waiting.add(statement);
    if (ended) {
      end();
    }
  }

  /** Give up what was asked of a process that has ended. */
  private synchronized void end() {
    ended = true;
    PLANNERS.remove(number);
    server.shutdown();
    taken.addAll(waiting);
    waiting.clear();
    for (Statement statement : taken) {
      statement.giveUp(connected, Errors.analysis(reason()));
    }
    taken.clear();
  }

  private String reason() {
    String last = lines.isEmpty() ? "" : ": " + lines.peekLast();
    if (!connected) {
      return "episode's planner did not start" + last + "\n  " + python
          + " needs episode and its dependencies: install them, or set " + PYTHON + " to a Python that has them.";
    }
    return "episode's planner ended while it planned this statement" + last
        + "\n  Run the statement again: a new planner starts with it.";
  }

  private void stop() {
    process.destroy();
    end();
  }

  // Called by the planner's process.

  public static Planner numbered(int number) {
    return PLANNERS.get(number);
  }

  public JavaSparkContext context() {
    return new JavaSparkContext(context);
  }

  public SparkSession defaultSession() {
    return SparkSession.getDefaultSession().getOrElse(() -> null);
  }

  /** The next statement; null after some time without any. */
  public Statement take(int seconds) throws InterruptedException {
    connected = true;
    Statement statement = waiting.poll(seconds, TimeUnit.SECONDS);
    if (statement != null) {
      taken.add(statement);
    }
    return statement;
  }

  public void done(Statement statement) {
    taken.remove(statement);
  }
}
