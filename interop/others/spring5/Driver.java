package interop;

import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.common.Pair;
import org.apache.rocketmq.client.core.RocketMQClientTemplate;
import org.springframework.boot.Banner;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/** rocketmq-v5-client-spring-boot-starter: gRPC. */
final class Driver implements Client {
    private static final String PRIMER = "primer";
    private static final Set<String> PRIMED = ConcurrentHashMap.newKeySet();
    private static RocketMQClientTemplate template;

    private final String scenario;

    Driver(String scenario) {
        this.scenario = scenario;
        application();
    }

    /** One for all scenarios. */
    private static synchronized void application() {
        if (template == null) {
            String endpoint = System.getenv("INTEROP_ENDPOINT");
            template = new SpringApplicationBuilder(Listeners.class).bannerMode(Banner.Mode.OFF).run(
                "--endpoint=" + endpoint, "--rocketmq.producer.endpoints=" + endpoint, "--rocketmq.producer.topic=spring5-transaction",
                "--rocketmq.producer.request-timeout=10", "--demo.rocketmq.topic=none", "--logging.level.root=WARN")
                .getBean(RocketMQClientTemplate.class);
        }
    }

    /** A new group begins at the newest message of its first receive: primers are sent until one arrives, and left out. */
    static boolean primed(String group, Arrival arrival) {
        return arrival.label().equals(PRIMER) && (PRIMED.add(group) || true);
    }

    private static String destination(Letter letter) {
        return letter.tag().isEmpty() ? letter.topic() : letter.topic() + ":" + letter.tag();
    }

    /** Every header becomes a property as well, and a property may not be called KEYS. */
    private static Message<byte[]> message(Letter letter) {
        MessageBuilder<byte[]> builder = MessageBuilder.withPayload(letter.body());
        return (letter.key().isEmpty() ? builder : builder.setHeader("rocketmq_KEYS", letter.key())).build();
    }

    @Override
    public String send(Letter letter) {
        return template.syncSendNormalMessage(destination(letter), message(letter)).getMessageId().toString();
    }

    @Override
    public void sendAsync(Letter letter, Function<Throwable, Void> done) {
        template.asyncSendNormalMessage(destination(letter), message(letter), new CompletableFuture<SendReceipt>())
            .whenComplete((receipt, problem) -> done.apply(problem));
    }

    @Override
    public void sendInOrder(Letter letter, String key) {
        template.syncSendFifoMessage(destination(letter), message(letter), key);
    }

    @Override
    public void sendLater(Letter letter, int level) {
        template.syncSendDelayMessage(destination(letter), message(letter), Duration.ofMillis(Scenarios.LEVELS_MS[level]));
    }

    @Override
    public void sendHalf(Letter letter, Function<String, Verdict> now, Function<String, Verdict> check) throws Exception {
        Listeners.Decisions.check = check;
        Pair<SendReceipt, Transaction> half = template.sendTransactionMessage(destination(letter), message(letter));
        switch (now.apply(letter.label())) {
            case COMMIT -> half.getTransaction().commit();
            case ROLLBACK -> half.getTransaction().rollback();
            case UNKNOWN -> { }
        }
    }

    @Override
    public void listen(Listening listening) throws Exception {
        if (listening.mode() == Mode.BROADCAST) {
            throw new Skipped("no broadcasting");
        }
        Switchboard.connect(listening);
        Letter primer = Letter.of(listening.topic(), PRIMER).tagged("a");
        Scenarios.check(Inbox.eventually(60, () -> {
            primer(primer);
            Scenarios.pause(1000);
            return PRIMED.contains(listening.group());
        }), "no primer came");
    }

    private void primer(Letter primer) {
        try {
            switch (scenario) {
                case "orderly" -> sendInOrder(primer, PRIMER);
                case "delay" -> sendLater(primer, 1);
                case "transaction" -> sendHalf(primer, label -> Verdict.COMMIT, label -> Verdict.ROLLBACK);
                default -> send(primer);
            }
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    @Override
    public boolean limitsRetries() {
        return false;
    }

    @Override
    public void close() {
        // The application ends with the process.
    }
}
