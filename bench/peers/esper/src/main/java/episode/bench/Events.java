package episode.bench;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Events whose columns are in memory, as files of little-endian numbers; objects are made as they are fed. */
public abstract class Events {
    private final LongBuffer times;

    private Events(LongBuffer times) {
        this.times = times;
    }

    static Events read(String kind, Path place) throws Exception {
        return switch (kind) {
            case "tick" -> new Ticks(place);
            case "trade" -> new Trades(place);
            case "report" -> new Reports(place);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    final int size() {
        return times.capacity();
    }

    /** Milliseconds. */
    final long time(int row) {
        return times.get(row);
    }

    abstract String name();

    abstract Class<?> type();

    /** Of the result, to be kept; none: matches are counted. */
    abstract String[] columns();

    abstract Object event(int row);

    private static ByteBuffer file(Path place, String column) throws Exception {
        try (FileChannel channel = FileChannel.open(place.resolve(column))) {
            MappedByteBuffer buffer = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            return buffer.load().order(ByteOrder.LITTLE_ENDIAN);
        }
    }

    /** A price of a symbol. */
    public record Tick(int getKey, long getTs, double getPrice) {}

    private static final class Ticks extends Events {
        private final IntBuffer keys;
        private final DoubleBuffer prices;

        Ticks(Path place) throws Exception {
            super(file(place, "ts").asLongBuffer());
            keys = file(place, "key").asIntBuffer();
            prices = file(place, "price").asDoubleBuffer();
        }

        @Override
        String name() {
            return "Tick";
        }

        @Override
        Class<?> type() {
            return Tick.class;
        }

        @Override
        String[] columns() {
            return new String[] {"symbol", "init_price", "max_price"};
        }

        @Override
        Object event(int row) {
            return new Tick(keys.get(row), time(row), prices.get(row));
        }
    }

    /** A trade of a stock. */
    public record Trade(long getId, String getName, long getTs) {}

    private static final class Trades extends Events {
        private static final String[] NAMES = {"IBM", "Sun", "Oracle"};
        private final IntBuffer names;

        Trades(Path place) throws Exception {
            super(file(place, "ts").asLongBuffer());
            names = file(place, "name").asIntBuffer();
        }

        @Override
        String name() {
            return "Trade";
        }

        @Override
        Class<?> type() {
            return Trade.class;
        }

        @Override
        String[] columns() {
            return new String[0];
        }

        @Override
        Object event(int row) {
            return new Trade(row, NAMES[names.get(row)], time(row));
        }
    }

    /** A report of a car. */
    public record Report(int getCar, long getTs, double getSpeed, double getAccel) {}

    private static final class Reports extends Events {
        private final IntBuffer cars;
        private final DoubleBuffer speeds;
        private final DoubleBuffer accels;

        Reports(Path place) throws Exception {
            super(file(place, "ts").asLongBuffer());
            cars = file(place, "car_id").asIntBuffer();
            speeds = file(place, "speed").asDoubleBuffer();
            accels = file(place, "accel").asDoubleBuffer();
        }

        @Override
        String name() {
            return "Report";
        }

        @Override
        Class<?> type() {
            return Report.class;
        }

        @Override
        String[] columns() {
            return new String[] {"id", "avg_speed"};
        }

        @Override
        Object event(int row) {
            return new Report(cars.get(row), time(row), speeds.get(row), accels.get(row));
        }
    }
}
