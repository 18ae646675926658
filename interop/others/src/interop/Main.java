package interop;

import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs every scenario, or the one named on the command line, side by side: they mostly wait. */
public final class Main {
    private static final long LIMIT_SECONDS = 200;
    static final String NAME = System.getenv("INTEROP_NAME");
    static final String NAMESRV = System.getenv("INTEROP_NAMESRV");
    static final boolean REDSTART = "redstart".equals(System.getenv("INTEROP_SERVER"));

    /** Result lines only: the clients' logging finds its way to System.out. */
    private static final PrintStream RESULTS = System.out;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        List<Thread> threads = new ArrayList<>();
        List<String> failed = new ArrayList<>();
        for (Map.Entry<String, Scenarios.Scenario> entry : Scenarios.ALL.entrySet()) {
            if (arguments.length > 0 && !entry.getKey().equals(arguments[0])) {
                continue;
            }
            Thread thread = new Thread(() -> {
                if (!run(entry.getKey(), entry.getValue())) {
                    synchronized (failed) {
                        failed.add(entry.getKey());
                    }
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        // The clients leave threads behind that would keep the process alive, and some ask the server much when they stop.
        Runtime.getRuntime().halt(failed.isEmpty() ? 0 : 1);
    }

    private static boolean run(String scenario, Scenarios.Scenario body) {
        FutureTask<String> task = new FutureTask<>(() -> {
            Client client = new Driver(scenario);
            try {
                return body.run(client, NAME + "-" + scenario);
            } finally {
                client.close();
            }
        });
        Thread thread = new Thread(task, scenario);
        thread.setDaemon(true);
        thread.start();
        try {
            print("PASS " + NAME + " " + scenario + " " + task.get(LIMIT_SECONDS, TimeUnit.SECONDS));
            return true;
        } catch (TimeoutException | InterruptedException late) {
            thread.interrupt();
            print("FAIL " + NAME + " " + scenario + ": not done after " + LIMIT_SECONDS + " s");
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof Client.Skipped) {
                print("SKIP " + NAME + " " + scenario + ": " + cause.getMessage());
                return true;
            }
            cause.printStackTrace();
            print("FAIL " + NAME + " " + scenario + ": " + (cause instanceof Scenarios.Broken ? cause.getMessage() : cause));
        }
        return false;
    }

    private static void print(String line) {
        synchronized (RESULTS) {
            RESULTS.println(line.replaceAll("\\s+", " ").trim());
        }
    }
}
