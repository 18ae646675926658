package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The broker goes away and comes back; the clients stay. */
final class Restart {
    private static final int MESSAGES = 30;

    static String resume(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(lab.primer().build()));
        for (int i = 0; i < MESSAGES; i++) {
            producer.send(lab.message("m" + i).build());
        }
        Set<String> acked = new HashSet<>();
        lab.step("consuming before the restart");
        consume(reader, acked, 10);
        // In flight during the restart: must come again, being unacknowledged.
        reader.take(2, Reader.INVISIBLE, Duration.ofSeconds(10));

        lab.step("restarting");
        restart("term");
        if (Lab.REDSTART) {
            lab.step("consuming between the restarts");
            consume(reader, acked, 20);
            lab.step("killing");
            restart("kill");
        }
        lab.step("consuming after the restart");
        consume(reader, acked, MESSAGES);
        lab.step("making sure that nothing comes again");
        reader.nothing(Reader.INVISIBLE.plusSeconds(5));
        return "";
    }

    /** Receives and acknowledges until so many messages are done; one that was done before is an error. */
    private static void consume(Reader reader, Set<String> acked, int count) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (acked.size() < count) {
            check(System.nanoTime() < deadline, "only %d messages came", acked.size());
            for (MessageView message : takeThrough(reader)) {
                check(!acked.contains(Lab.label(message)), "%s came again after its ack", Lab.label(message));
                reader.consumer.ack(message);
                acked.add(Lab.label(message));
            }
        }
    }

    /** Errors are expected while the client finds the server again. */
    private static List<MessageView> takeThrough(Reader reader) throws InterruptedException {
        try {
            return reader.take(5, Reader.INVISIBLE, Duration.ofSeconds(1));
        } catch (Exception away) {
            Thread.sleep(500);
            return List.of();
        }
    }

    private static void restart(String how) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getenv("INTEROP_CONTROL")));
        if (how.equals("kill")) {
            command.add(how);
        }
        int code = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor();
        check(code == 0, "the restart command failed with %d", code);
    }
}
