package interop;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Runs one scenario within its time limit and prints its one line. */
final class Runner implements Callable<Boolean> {
    private static final long LIMIT_SECONDS = 150;

    private final String name;
    private final Scenario scenario;

    Runner(String name, Scenario scenario) {
        this.name = name;
        this.scenario = scenario;
    }

    @Override
    public Boolean call() {
        Lab lab = new Lab(name);
        FutureTask<String> task = new FutureTask<>(() -> scenario.run(lab));
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        boolean good = report(lab, task);
        // The verdict is out; a 5.x consumer takes seconds to close, in which the next scenario may begin.
        Thread closing = new Thread(lab::close, name + "-closing");
        closing.setDaemon(true);
        closing.start();
        return good;
    }

    private boolean report(Lab lab, FutureTask<String> task) {
        try {
            print("PASS " + Lab.NAME + " " + name + " " + task.get(LIMIT_SECONDS, TimeUnit.SECONDS));
            return true;
        } catch (TimeoutException | InterruptedException late) {
            task.cancel(true);
            print("FAIL " + Lab.NAME + " " + name + ": not done after " + LIMIT_SECONDS + " s, while " + lab.step());
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            if (cause instanceof Scenario.Skipped) {
                print("SKIP " + Lab.NAME + " " + name + ": " + cause.getMessage());
                return true;
            }
            cause.printStackTrace();
            String what = cause instanceof Scenario.Broken ? cause.getMessage() : cause.toString();
            print("FAIL " + Lab.NAME + " " + name + ": " + what + " (while " + lab.step() + ")");
        }
        return false;
    }

    private static void print(String line) {
        synchronized (Main.RESULTS) {
            Main.RESULTS.println(line.replaceAll("\\s+", " ").trim());
        }
    }
}
