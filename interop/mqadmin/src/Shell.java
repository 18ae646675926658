import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs many mqadmin commands in one JVM. A request is a line of fields separated by U+0001: the limit in milliseconds, a text
 * that ends the wait early when it is printed (or nothing), and the words of the command; `client` begins the commands of
 * {@link Clients}. The answer is a line `BYTES ENDED`, ENDED being false at the limit, and so many bytes of output.
 */
public final class Shell {
    private static final PrintStream REPLIES = System.out;

    public static void main(String[] arguments) throws Exception {
        System.setOut(new PrintStream(new Capture(), true));
        System.setErr(new PrintStream(new Capture(), true));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            List<String> fields = Arrays.asList(line.split("\u0001", -1));
            answer(Long.parseLong(fields.get(0)), fields.get(1), fields.subList(2, fields.size()).toArray(new String[0]));
        }
        System.exit(0);
    }

    private static void answer(long limitMs, String until, String[] words) throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        Thread thread = new Thread(() -> {
            Capture.begin(output);
            run(words);
        }, words[0]);
        thread.setDaemon(true);
        thread.start();
        long deadline = System.nanoTime() + limitMs * 1_000_000;
        while (thread.isAlive() && System.nanoTime() < deadline && !(!until.isEmpty() && output.toString().contains(until))) {
            thread.join(20);
        }
        boolean ended = !thread.isAlive() || !until.isEmpty() && output.toString().contains(until);
        // Those that never end do so when their sleep is disturbed.
        thread.interrupt();
        byte[] bytes = output.toByteArray();
        REPLIES.print(bytes.length + " " + ended + "\n");
        REPLIES.write(bytes);
        REPLIES.flush();
    }

    private static void run(String[] words) {
        try {
            if (words[0].equals("client")) {
                Clients.run(Arrays.copyOfRange(words, 1, words.length));
            } else {
                Commands.forget();
                MQAdminStartup.main0(words, null);
            }
        } catch (Throwable problem) {
            problem.printStackTrace();
        }
    }

    private static final class Commands extends MQAdminStartup {
        /** Some commands keep the client of their last run, which is closed by now; main0 makes all of them anew. */
        static void forget() {
            SUB_COMMANDS.clear();
        }
    }

    /** What a command and the threads it starts print. */
    private static final class Capture extends java.io.OutputStream {
        private static final InheritableThreadLocal<ByteArrayOutputStream> CURRENT = new InheritableThreadLocal<>();

        static void begin(ByteArrayOutputStream output) {
            CURRENT.set(output);
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int start, int length) {
            ByteArrayOutputStream output = CURRENT.get();
            if (output != null) {
                output.write(bytes, start, length);
            }
        }
    }
}
