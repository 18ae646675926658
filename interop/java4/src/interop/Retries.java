package interop;

import static interop.Scenario.check;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A listener that fails until the message is dead. */
final class Retries {
    static String deadLetter(Lab lab) throws Exception {
        List<Integer> attempts = new CopyOnWriteArrayList<>();
        List<MessageExt> seen = new CopyOnWriteArrayList<>();
        Inbox good = new Inbox();
        DefaultMQPushConsumer consumer = lab.consumer(lab.group());
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(lab.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (Lab.label(message).equals("bad")) {
                    attempts.add(message.getReconsumeTimes());
                    seen.add(message);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                good.add(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        lab.start(consumer);
        DefaultMQProducer producer = lab.producer();
        Message bad = lab.message("bad");
        bad.setTags("t");
        bad.setKeys("k");
        SendResult sent = Lab.ok(producer.send(bad));
        Lab.ok(producer.send(lab.message("good")));

        String dead = "%DLQ%" + lab.group();
        lab.step("waiting for the dead-letter topic");
        check(Inbox.eventually(60, () -> exists(producer, dead)), "no %s after attempts %s", dead, attempts);
        Inbox letters = new Inbox();
        lab.listen(lab.group() + "-reader", dead, letters);
        lab.step("waiting for the dead letter");
        MessageExt letter = letters.get("bad", 60).message();
        check(List.copyOf(attempts).equals(List.of(0, 1, 2)), "reconsume times %s", attempts);
        for (MessageExt again : seen) {
            check(again.getTopic().equals(lab.topic()), "the listener saw topic %s", again.getTopic());
            check(again.getMsgId().equals(sent.getMsgId()), "the listener saw id %s", again.getMsgId());
        }
        check(letter.getTopic().equals(dead), "the dead letter's topic is %s", letter.getTopic());
        check("t".equals(letter.getTags()) && "k".equals(letter.getKeys()), "tag or keys are lost");
        check(letter.getMsgId().equals(sent.getMsgId()), "the dead letter's id is %s", letter.getMsgId());
        check(lab.topic().equals(letter.getProperty("RETRY_TOPIC")), "RETRY_TOPIC is %s", letter.getProperty("RETRY_TOPIC"));
        check(sent.getOffsetMsgId().equals(letter.getProperty("ORIGIN_MESSAGE_ID")), "ORIGIN_MESSAGE_ID is %s, sent as %s",
            letter.getProperty("ORIGIN_MESSAGE_ID"), sent.getOffsetMsgId());
        check(new String(letter.getBody()).equals("bad"), "the body changed");
        check(good.labels().equals(List.of("good")), "the healthy message came as %s", good.labels());
        return "";
    }

    private static boolean exists(DefaultMQProducer producer, String topic) {
        try {
            return !producer.fetchPublishMessageQueues(topic).isEmpty();
        } catch (Exception notYet) {
            return false;
        }
    }
}
