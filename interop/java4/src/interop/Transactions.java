package interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Half messages and how they end. */
final class Transactions {
    /** Longer than the 60 s that pass before the first check when the server keeps the documented default. */
    private static final int CHECK_PATIENCE_SECONDS = 100;

    /** A listener that decides by label. */
    record Decisions(Function<String, LocalTransactionState> now, Function<String, LocalTransactionState> later)
            implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
            return now.apply(message.getUserProperty("interop"));
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            return later.apply(Lab.label(message));
        }
    }

    static String commit(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        boolean[] early = {false};
        TransactionMQProducer producer = lab.transactional(new Decisions(label -> {
            // The half message is stored: it must stay invisible while the local transaction runs.
            early[0] = pause(inbox);
            return LocalTransactionState.COMMIT_MESSAGE;
        }, label -> LocalTransactionState.UNKNOW));
        Message message = lab.message("one");
        message.setTags("t");
        message.setKeys("k");
        TransactionSendResult sent = producer.sendMessageInTransaction(message, null);
        check(sent.getLocalTransactionState() == LocalTransactionState.COMMIT_MESSAGE, "not committed: %s", sent);
        check(!early[0], "visible before the commit");
        MessageExt got = inbox.get("one", 30).message();
        check(got.getTopic().equals(lab.topic()) && "t".equals(got.getTags()) && "k".equals(got.getKeys()),
            "tag %s, keys %s", got.getTags(), got.getKeys());
        check(got.getTransactionId().equals(sent.getTransactionId()), "transaction id %s instead of %s",
            got.getTransactionId(), sent.getTransactionId());
        inbox.exactly(List.of("one"), 5);
        return "";
    }

    static String rollback(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        TransactionMQProducer producer = lab.transactional(new Decisions(label -> label.equals("dropped")
            ? LocalTransactionState.ROLLBACK_MESSAGE : LocalTransactionState.COMMIT_MESSAGE,
            label -> LocalTransactionState.UNKNOW));
        producer.sendMessageInTransaction(lab.message("dropped"), null);
        producer.sendMessageInTransaction(lab.message("last"), null);
        inbox.get("last", 30);
        inbox.exactly(List.of("last"), 5);
        return "";
    }

    static String check(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = lab.transactional(new Decisions(label -> LocalTransactionState.UNKNOW, label -> {
            int times = checks.merge(label, 1, Integer::sum);
            if (label.equals("dropped")) {
                return LocalTransactionState.ROLLBACK_MESSAGE;
            }
            return label.equals("twice") && times == 1 ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
        }));
        long sent = System.nanoTime();
        for (String label : List.of("dropped", "kept", "twice")) {
            producer.sendMessageInTransaction(lab.message(label), null);
        }
        lab.step("waiting for the checks");
        inbox.get("kept", CHECK_PATIENCE_SECONDS);
        long seconds = (System.nanoTime() - sent) / 1_000_000_000;
        inbox.get("twice", CHECK_PATIENCE_SECONDS);
        check(checks.getOrDefault("twice", 0) >= 2, "checks: %s", checks);
        check(checks.getOrDefault("dropped", 0) >= 1, "checks: %s", checks);
        check(!inbox.has("dropped"), "the rolled-back message came");
        check(inbox.size() == 2, "a message came twice: %s", inbox.labels());
        return "after " + seconds + " s";
    }

    private static boolean pause(Inbox inbox) {
        try {
            return Inbox.eventually(2, () -> inbox.size() > 0);
        } catch (InterruptedException stopped) {
            return false;
        }
    }

    private static void check(boolean condition, String otherwise, Object... values) {
        Scenario.check(condition, otherwise, values);
    }
}
