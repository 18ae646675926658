package interop;

import java.util.function.Function;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.Banner;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/** rocketmq-spring-boot-starter: a template that sends, and listeners that are declared. */
final class Driver implements Client {
    private static final long TIMEOUT_MS = 10_000;
    private static RocketMQTemplate template;

    Driver(String scenario) {
        application();
    }

    /** One for all scenarios. */
    private static synchronized void application() {
        if (template == null) {
            template = new SpringApplicationBuilder(Listeners.class).bannerMode(Banner.Mode.OFF).run(
                "--rocketmq.name-server=" + Main.NAMESRV, "--rocketmq.producer.group=spring-producer",
                "--rocketmq.producer.send-message-timeout=" + TIMEOUT_MS, "--logging.level.root=WARN")
                .getBean(RocketMQTemplate.class);
        }
    }

    private static String destination(Letter letter) {
        return letter.tag().isEmpty() ? letter.topic() : letter.topic() + ":" + letter.tag();
    }

    private static Message<byte[]> message(Letter letter) {
        return MessageBuilder.withPayload(letter.body()).setHeader("KEYS", letter.key()).build();
    }

    private static String ok(SendResult result) {
        Scenarios.check(result.getSendStatus() == SendStatus.SEND_OK, "send status %s", result.getSendStatus());
        return result.getMsgId();
    }

    @Override
    public String send(Letter letter) {
        return ok(template.syncSend(destination(letter), message(letter)));
    }

    @Override
    public void sendAsync(Letter letter, Function<Throwable, Void> done) {
        template.asyncSend(destination(letter), message(letter), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.apply(null);
            }

            @Override
            public void onException(Throwable problem) {
                done.apply(problem);
            }
        });
    }

    @Override
    public void sendOneway(Letter letter) {
        template.sendOneWay(destination(letter), message(letter));
    }

    @Override
    public void sendInOrder(Letter letter, String key) {
        ok(template.syncSendOrderly(destination(letter), message(letter), key));
    }

    @Override
    public void sendLater(Letter letter, int level) {
        ok(template.syncSend(destination(letter), message(letter), TIMEOUT_MS, level));
    }

    @Override
    public void sendHalf(Letter letter, Function<String, Verdict> now, Function<String, Verdict> check) {
        Listeners.Decisions.now = now;
        Listeners.Decisions.check = check;
        ok(template.sendMessageInTransaction(destination(letter), message(letter), null));
    }

    @Override
    public void listen(Listening listening) {
        Switchboard.connect(listening);
    }

    @Override
    public void close() {
        // The application ends with the process.
    }
}
