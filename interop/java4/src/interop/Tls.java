package interop;

import static interop.Scenario.check;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** The client over TLS, on the ports that the others use in plaintext. The switches for it are the JVM's, so it gets its own. */
final class Tls {
    private static final int COUNT = 5;
    private static final long LIMIT_SECONDS = 100;

    static String exchange(Lab lab) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Duser.home=" + System.getProperty("user.home"));
        command.add("-Dtls.enable=true");
        command.addAll(trust());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Tls.class.getName()));
        lab.step("a JVM with TLS is at work");
        Process child = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            check(child.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS), "not done after %d s", LIMIT_SECONDS);
            String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
            check(child.exitValue() == 0, "%s", said);
            return said;
        } finally {
            child.destroyForcibly();
        }
    }

    /** Redstart's certificate is verified. Apache makes one at each start, which only the test mode accepts. */
    private static List<String> trust() {
        String certificate = System.getenv().getOrDefault("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "");
        if (certificate.isEmpty()) {
            return List.of("-Dtls.test.mode.enable=true");
        }
        return List.of("-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true", "-Dtls.client.trustCertPath=" + certificate);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream verdict = System.out;
        System.setOut(System.err);
        int status = 0;
        try {
            Lab lab = new Lab("tls");
            Inbox inbox = lab.listen();
            DefaultMQProducer producer = lab.producer();
            List<String> labels = Lab.labels("m", COUNT);
            for (String label : labels) {
                Lab.ok(producer.send(lab.message(label)));
            }
            inbox.exactly(labels, 60);
            verdict.println("true".equals(System.getProperty("tls.client.authServer")) ? "verified" : "not verified");
        } catch (Exception problem) {
            problem.printStackTrace();
            verdict.println(problem);
            status = 1;
        }
        verdict.flush();
        System.exit(status);
    }
}
