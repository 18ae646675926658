package interop;

import static interop.Scenario.check;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/** Sending and receiving, and what is refused. */
final class Basics {
    private static final int BODY_BYTES_MAX = 4 * 1024 * 1024;

    /** `normal`, and with the two ways to connect `tls` and `plaintext`. */
    static String exchange(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        BlockingQueue<MessageView> inbox = new LinkedBlockingQueue<>();
        lab.push((label, message) -> inbox.add(message), () -> producer.send(lab.primer().build()));

        byte[] body = everyByte();
        SendReceipt receipt = producer.send(lab.message("one").setTag("red").setKeys("k1", "k2")
            .addProperty("colour", "grün ✓").addProperty("n", "42").setBody(body).build());
        MessageView got = inbox.poll(20, TimeUnit.SECONDS);
        check(got != null, "nothing came");
        check(got.getMessageId().toString().equals(receipt.getMessageId().toString()), "another message id");
        check(got.getTopic().equals(lab.topic()), "topic is %s", got.getTopic());
        check(got.getTag().orElse("").equals("red"), "tag is %s", got.getTag());
        check(Set.copyOf(got.getKeys()).equals(Set.of("k1", "k2")), "keys are %s", got.getKeys());
        check("grün ✓".equals(got.getProperties().get("colour")) && "42".equals(got.getProperties().get("n")),
            "properties are %s", got.getProperties());
        check(got.getProperties().size() == 3, "foreign properties in %s", got.getProperties());
        check(bytes(got).equals(ByteBuffer.wrap(body)), "the body changed");
        check(got.getDeliveryAttempt() == 1, "attempt %d", got.getDeliveryAttempt());
        check(Math.abs(System.currentTimeMillis() - got.getBornTimestamp()) < 60_000, "born at another time");
        check(inbox.poll(1, TimeUnit.SECONDS) == null, "it came twice");
        return "";
    }

    static String bodyLimit(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader().primed(() -> producer.send(lab.primer().build()));
        byte[] body = new byte[BODY_BYTES_MAX];
        new Random(1).nextBytes(body);
        producer.send(lab.message("largest").setBody(body).build());
        MessageView got = reader.one(Duration.ofSeconds(30));
        check(bytes(got).equals(ByteBuffer.wrap(body)), "the body changed");
        reader.consumer.ack(got);
        return refused(producer, lab.message("too large").setBody(new byte[BODY_BYTES_MAX + 1]).build());
    }

    static String typeMismatch(Lab lab) throws Exception {
        String normal = lab.topic() + "-normal";
        String fifo = lab.topic() + "-fifo";
        Producer producer = lab.producer(normal, fifo);
        refused(producer, lab.message(fifo, "no group").build());
        refused(producer, lab.message(normal, "a group").setMessageGroup("g").build());
        // The topics do take what they are for.
        producer.send(lab.message(normal, "plain").build());
        producer.send(lab.message(fifo, "grouped").setMessageGroup("g").build());
        return "";
    }

    static String unknownTopic(Lab lab) throws Exception {
        String topic = "java-no-such-topic";
        String error = refused(lab.producer(), lab.message(topic, "lost").build());
        check(error.contains("40402") || error.contains(topic), "the error says neither code nor topic: %s", error);
        return error;
    }

    static String batchSend(Lab lab) throws Scenario.Skipped {
        throw new Scenario.Skipped("the client sends one message a call (client lacks the feature)");
    }

    /** Sends what must be refused, and returns how it was. */
    private static String refused(Producer producer, Message message) {
        try {
            producer.send(message);
        } catch (Exception refusal) {
            String what = String.valueOf(refusal.getMessage()).replaceAll("request-id=[^,]*, ", "");
            return what.substring(0, Math.min(what.length(), 100));
        }
        throw new Scenario.Broken("accepted, to topic " + message.getTopic());
    }

    private static ByteBuffer bytes(MessageView message) {
        return message.getBody().slice();
    }

    private static byte[] everyByte() {
        byte[] body = new byte[256];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) i;
        }
        return body;
    }
}
