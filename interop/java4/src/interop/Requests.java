package interop;

import static interop.Scenario.check;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Request and reply. */
final class Requests {
    static String reply(Lab lab) throws Exception {
        DefaultMQProducer replies = lab.producer();
        DefaultMQPushConsumer consumer = lab.consumer(lab.group());
        consumer.subscribe(lab.topic(), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (!Lab.label(message).equals("silence")) {
                    answer(replies, message);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        lab.start(consumer);
        DefaultMQProducer requests = lab.producer();
        lab.step("requesting");
        check("re: one".equals(text(requests.request(lab.message("one"), 20_000))), "another reply");
        CompletableFuture<String> later = new CompletableFuture<>();
        requests.request(lab.message("two"), new RequestCallback() {
            @Override
            public void onSuccess(Message message) {
                later.complete(text(message));
            }

            @Override
            public void onException(Throwable problem) {
                later.completeExceptionally(problem);
            }
        }, 20_000);
        check("re: two".equals(later.get(25, TimeUnit.SECONDS)), "another reply to the callback");
        try {
            requests.request(lab.message("silence"), 2000);
        } catch (RequestTimeoutException asItShould) {
            return "";
        }
        throw new Scenario.Broken("a reply that nobody sent");
    }

    private static void answer(DefaultMQProducer replies, MessageExt message) {
        try {
            byte[] body = ("re: " + new String(message.getBody(), StandardCharsets.UTF_8)).getBytes(StandardCharsets.UTF_8);
            Lab.ok(replies.send(MessageUtil.createReplyMessage(message, body)));
        } catch (Exception problem) {
            problem.printStackTrace();
        }
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
