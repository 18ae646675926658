package interop;

import java.util.function.Function;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.Message;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.component.rocketmq.RocketMQConstants;
import org.apache.camel.impl.DefaultCamelContext;

/** Apache Camel's component: endpoints with producers and consumers. */
final class Driver implements Client {
    private final String group;
    private final CamelContext context = new DefaultCamelContext();
    private final ProducerTemplate template;

    Driver(String scenario) throws Exception {
        group = Main.NAME + "-" + scenario + "-producer";
        context.start();
        template = context.createProducerTemplate();
    }

    private static String address(String topic, String options) {
        return "rocketmq:" + topic.replace("%", "%25") + "?namesrvAddr=" + Main.NAMESRV + "&" + options;
    }

    private void fill(Exchange exchange, Letter letter) {
        Message message = exchange.getIn();
        message.setBody(letter.body());
        message.setHeader(RocketMQConstants.OVERRIDE_TAG, letter.tag());
        message.setHeader(RocketMQConstants.OVERRIDE_MESSAGE_KEY, letter.key());
    }

    @Override
    public String send(Letter letter) {
        Exchange done = template.send(address(letter.topic(), "producerGroup=" + group + "&waitForSendResult=true"),
            exchange -> fill(exchange, letter));
        Scenarios.check(done.getException() == null, "not sent: %s", done.getException());
        return null;
    }

    @Override
    public void sendAsync(Letter letter, Function<Throwable, Void> done) {
        template.asyncSend(address(letter.topic(), "producerGroup=" + group + "&waitForSendResult=true"),
            exchange -> fill(exchange, letter)).thenAccept(exchange -> done.apply(exchange.getException()));
    }

    @Override
    public void listen(Listening listening) throws Exception {
        if (listening.mode() != Mode.SHARED) {
            throw new Skipped(listening.mode() == Mode.ORDERLY ? "no ordered messages" : "no broadcasting");
        }
        // Not a route: there Camel keeps a failure to itself, and the component takes the message for done.
        String address = address(listening.topic(), "consumerGroup=" + listening.group() + "&subscribeTags=RAW(" + listening.tags() + ")");
        context.getEndpoint(address).createConsumer(exchange -> {
            if (!listening.handler().take(arrival(exchange.getIn()))) {
                throw new IllegalStateException("to be tried again");
            }
        }).start();
    }

    private static Arrival arrival(Message message) {
        return new Arrival(message.getHeader(RocketMQConstants.MSG_ID, String.class),
            message.getHeader(RocketMQConstants.TOPIC, String.class), message.getHeader(RocketMQConstants.TAG, String.class),
            message.getHeader(RocketMQConstants.KEY, String.class), message.getBody(byte[].class),
            message.getHeader(RocketMQConstants.RECONSUME_TIMES, Integer.class));
    }

    @Override
    public boolean limitsRetries() {
        return false;
    }

    @Override
    public void close() {
        context.stop();
    }
}
