import io.trino.server.Server;

/** Starts Trino's server from its parts. Argument: the version that it reports. */
public final class Launch {
    private Launch() {}

    public static void main(String[] arguments) {
        new Server().start(arguments[0]);
    }
}
