package episode.bench;

import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Feeds events from memory to a query of Esper in one thread, and takes the time.
 *
 * Arguments: kind of events (tick, trade, report), file of the EPL module, directory of the columns, rows to warm up
 * with, and how often to run. The statement named `out` is listened to; if it has the columns that the kind names, its
 * values are kept and written to the file `matches` of the directory after the last run, else it is counted. Prints a
 * line for each run: seconds, matches.
 */
public final class Feed {
    private Feed() {}

    public static void main(String[] arguments) throws Exception {
        Events events = Events.read(arguments[0], Path.of(arguments[2]));
        String module = Files.readString(Path.of(arguments[1]));
        int warm = Integer.parseInt(arguments[3]);
        int runs = Integer.parseInt(arguments[4]);

        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType(events.name(), events.type());
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(module, new CompilerArguments(configuration));

        run(configuration, compiled, events, Math.min(warm, events.size()), new Matches(events.columns()));
        for (int number = 0; number < runs; number++) {
            Matches matches = new Matches(events.columns());
            double seconds = run(configuration, compiled, events, events.size(), matches);
            System.out.println(seconds + " " + matches.count);
            if (number == runs - 1) {
                matches.write(Path.of(arguments[2]).resolve("matches"));
            }
        }
    }

    private static double run(
            Configuration configuration, EPCompiled compiled, Events events, int rows, Matches matches)
            throws Exception {
        EPRuntime runtime = EPRuntimeProvider.getRuntime("bench", configuration);
        runtime.initialize();
        EPEventService service = runtime.getEventService();
        service.advanceTime(events.time(0));
        EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
        for (EPStatement statement : deployment.getStatements()) {
            if (statement.getName().equals("out")) {
                statement.addListener((incoming, outgoing, from, at) -> matches.add(incoming));
            }
        }
        System.gc();
        String name = events.name();
        long now = events.time(0);
        long begin = System.nanoTime();
        for (int row = 0; row < rows; row++) {
            long time = events.time(row);
            if (time != now) {
                now = time;
                service.advanceTime(now);
            }
            service.sendEventBean(events.event(row), name);
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        runtime.destroy();
        return seconds;
    }

    /** What the query found: the number, and the values of the columns, if there are any. */
    private static final class Matches {
        private final String[] columns;
        private double[] values = new double[1024];
        private long count;
        private int filled;

        Matches(String[] columns) {
            this.columns = columns;
        }

        void add(EventBean[] found) {
            if (found == null) {
                return;
            }
            count += found.length;
            for (EventBean one : found) {
                for (String column : columns) {
                    if (filled == values.length) {
                        values = Arrays.copyOf(values, 2 * filled);
                    }
                    values[filled++] = ((Number) one.get(column)).doubleValue();
                }
            }
        }

        /** Big-endian doubles, match by match. */
        void write(Path file) throws Exception {
            try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)))) {
                for (int at = 0; at < filled; at++) {
                    out.writeDouble(values[at]);
                }
            }
        }
    }
}
