package interop;

import static interop.Scenario.check;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Large bodies. */
final class Bodies {
    private static final int BODY_BYTES_MAX = 4 * 1024 * 1024;

    static String compressed(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        byte[] body = "a body that compresses well; ".repeat(3000).getBytes(StandardCharsets.UTF_8);
        for (String kind : Version.COMPRESSIONS) {
            DefaultMQProducer producer = new DefaultMQProducer(lab.group() + "-" + kind);
            Version.compress(producer, kind);
            Message message = lab.message(kind);
            message.setBody(body.clone());
            Lab.ok(lab.start(producer).send(message));
            MessageExt got = inbox.get(kind, 30).message();
            check(got.getStoreSize() < body.length / 4, "%s: not compressed, %d bytes were stored", kind, got.getStoreSize());
            check(Arrays.equals(got.getBody(), body), "%s: the body changed", kind);
        }
        return String.join(", ", Version.COMPRESSIONS);
    }

    static String limit(Lab lab) throws Exception {
        Inbox inbox = lab.listen();
        DefaultMQProducer producer = lab.producer();
        // It is the server that must refuse.
        producer.setMaxMessageSize(2 * BODY_BYTES_MAX);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        byte[] body = new byte[BODY_BYTES_MAX];
        new Random(1).nextBytes(body);
        Message largest = lab.message("largest");
        largest.setBody(body);
        Lab.ok(producer.send(largest));
        check(Arrays.equals(inbox.get("largest", 60).message().getBody(), body), "the body changed");
        Message larger = lab.message("larger");
        larger.setBody(Arrays.copyOf(body, BODY_BYTES_MAX + 1));
        try {
            producer.send(larger);
        } catch (MQBrokerException refusal) {
            check(refusal.getResponseCode() == 13, "refused with code %d: %s", refusal.getResponseCode(), refusal.getErrorMessage());
            return refusal.getErrorMessage();
        }
        throw new Scenario.Broken("one byte more was accepted");
    }
}
