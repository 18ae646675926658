package interop;

import static interop.Scenario.check;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/** Messages for later. */
final class Delays {
    private static final long LATE_MS_MAX = 5000;
    /** Levels 1 and 2 of lib/levels.py. */
    private static final long[] LEVELS_MS = {1000, 3000};

    static String level(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Inbox inbox = begun(lab, producer);
        Map<String, Long> due = new LinkedHashMap<>();
        // The later one first: the order of sending must not matter.
        for (int level = 2; level >= 1; level--) {
            Message message = lab.message("level" + level);
            message.setTags("later");
            message.setDelayTimeLevel(level);
            due.put("level" + level, System.currentTimeMillis() + LEVELS_MS[level - 1]);
            Lab.ok(producer.send(message));
        }
        long late = lateness(inbox, due);
        check(inbox.labels().equals(List.of("level1", "level2")), "came as %s", inbox.labels());
        check(inbox.get("level1", 1).message().getTags().equals("later"), "the tag is lost");
        return late + " ms late";
    }

    static String timer(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Inbox inbox = begun(lab, producer);
        Map<String, Long> due = new LinkedHashMap<>();
        Message at = lab.message("at");
        due.put("at", Version.deliverAt(at, System.currentTimeMillis() + 4321));
        Lab.ok(producer.send(at));
        Message ms = lab.message("in-ms");
        due.put("in-ms", Version.deliverInMs(ms, 2345));
        Lab.ok(producer.send(ms));
        Message seconds = lab.message("in-seconds");
        due.put("in-seconds", Version.deliverInSeconds(seconds, 6));
        Lab.ok(producer.send(seconds));
        long late = lateness(inbox, due);
        check(inbox.labels().equals(List.of("in-ms", "at", "in-seconds")), "came as %s", inbox.labels());
        return late + " ms late";
    }

    static String recall(Lab lab) throws Exception {
        DefaultMQProducer producer = lab.producer();
        Inbox inbox = begun(lab, producer);
        SendResult recalled = later(lab, producer, "recalled", 5000);
        SendResult kept = later(lab, producer, "kept", 5000);
        later(lab, producer, "last", 8000);
        String id = Version.recall(producer, lab.topic(), recalled);
        check(id.equals(recalled.getMsgId()), "recalled %s instead of %s", id, recalled.getMsgId());
        inbox.get("last", 30);
        check(inbox.labels().equals(List.of("kept", "last")), "got %s", inbox.labels());
        try {
            Version.recall(producer, lab.topic(), kept);
        } catch (Exception tooLate) {
            return "";
        }
        throw new Scenario.Broken("recalled a delivered message");
    }

    /** A consumer that has something from every queue: one that has only just begun takes what was due meanwhile in any order. */
    private static Inbox begun(Lab lab, DefaultMQProducer producer) throws Exception {
        Inbox inbox = lab.listen();
        List<String> labels = Lab.labels("first", 16);
        for (String label : labels) {
            // Sent in turn to all queues.
            Lab.ok(producer.send(lab.message(label)));
        }
        inbox.exactly(labels, 60);
        inbox.clear();
        return inbox;
    }

    private static SendResult later(Lab lab, DefaultMQProducer producer, String label, long ms) throws Exception {
        Message message = lab.message(label);
        Version.deliverInMs(message, ms);
        return Lab.ok(producer.send(message));
    }

    /** Waits for all; the greatest lateness in milliseconds. Early ones are told last, so that they hide nothing else. */
    static long lateness(Inbox inbox, Map<String, Long> due) throws Exception {
        long latest = 0;
        long earliest = 0;
        for (Map.Entry<String, Long> entry : due.entrySet()) {
            long late = inbox.get(entry.getKey(), 30).at() - entry.getValue();
            latest = Math.max(latest, late);
            earliest = Math.min(earliest, late);
        }
        check(inbox.size() == due.size(), "came as %s", inbox.labels());
        check(latest <= LATE_MS_MAX, "%d ms late", latest);
        check(earliest >= 0, "%d ms early", -earliest);
        return latest;
    }
}
