package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** The broker goes away and comes back; a producer and a push consumer live through it. */
final class Restart {
    static String resume(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        List<String> first = Lab.labels("m", 30);
        for (String label : first) {
            Lab.ok(producer.send(lab.message(label)));
        }
        lab.step("committing offsets");
        String other = lab.group() + "-pull";
        DefaultLitePullConsumer puller = Pulls.subscribed(lab, other);
        check(Pulls.sorted(Pulls.poll(puller, 30)).equals(Pulls.sorted(first)), "not all came");
        Pulls.awaitCommit(puller, lab.topic(), 30);
        puller.shutdown();
        Pulls.awaitStored(lab, other, 30);

        lab.step("restarting");
        restart("term");
        List<String> second = Lab.labels("n", 10);
        sendThrough(lab, producer, second);
        lab.step("reading on after the restart");
        DefaultLitePullConsumer again = Pulls.subscribed(lab, other);
        List<String> rest = Pulls.poll(again, 10);
        check(Pulls.sorted(rest).equals(Pulls.sorted(second)), "after the restart: %s", rest);
        again.shutdown();

        List<String> all = new ArrayList<>(first);
        all.addAll(second);
        if (Lab.REDSTART) {
            lab.step("killing");
            restart("kill");
            List<String> third = Lab.labels("o", 10);
            sendThrough(lab, producer, third);
            all.addAll(third);
        }
        lab.step("waiting for the consumer that lived through it");
        Inbox.eventually(90, () -> new HashSet<>(inbox.labels()).containsAll(all));
        Set<String> distinct = new HashSet<>(inbox.labels());
        check(distinct.containsAll(all), "%d of %d came", distinct.size(), all.size());
        return (inbox.size() - distinct.size()) + " repeats";
    }

    /** Errors are expected while the client finds the server again. */
    private static void sendThrough(Lab lab, DefaultMQProducer producer, List<String> labels) throws Exception {
        lab.step("sending after the restart");
        for (String label : labels) {
            check(Inbox.eventually(90, () -> accepted(producer, lab, label)), "%s was never accepted", label);
        }
    }

    private static boolean accepted(DefaultMQProducer producer, Lab lab, String label) {
        try {
            Lab.ok(producer.send(lab.message(label)));
            return true;
        } catch (Exception away) {
            return false;
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
