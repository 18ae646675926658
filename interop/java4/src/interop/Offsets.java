package interop;

import static interop.Scenario.check;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** The offsets of a running consumer are moved by an operator. */
final class Offsets {
    static String reset(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        List<String> early = Lab.labels("early", 10);
        for (String label : early) {
            Lab.ok(producer.send(lab.message(label)));
        }
        inbox.exactly(early, 30);
        // A moment between the two halves, so that a time can lie between them.
        Thread.sleep(1000);
        long between = System.currentTimeMillis();
        Thread.sleep(1000);
        List<String> late = Lab.labels("late", 10);
        for (String label : late) {
            Lab.ok(producer.send(lab.message(label)));
        }
        check(Inbox.eventually(30, () -> inbox.size() == 20), "%d of 20 came", inbox.size());

        lab.step("resetting");
        DefaultMQAdminExt admin = lab.admin();
        Map<MessageQueue, Long> offsets = admin.resetOffsetByTimestamp(lab.topic(), lab.group(), between, true);
        check(offsets.size() == 4 * Lab.BROKERS.size(), "reset of %s", offsets);
        lab.step("waiting for the second half again");
        Inbox.eventually(60, () -> inbox.size() >= 30);
        Thread.sleep(300);
        List<String> again = inbox.labels().subList(20, inbox.size());
        check(Pulls.sorted(again).equals(Pulls.sorted(late)), "after the reset: %s", again);
        return "";
    }
}
