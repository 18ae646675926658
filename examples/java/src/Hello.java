import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;

public class Hello {
    public static void main(String[] args) throws Exception {
        var provider = ClientServiceProvider.loadService();
        var server = ClientConfiguration.newBuilder().setEndpoints("127.0.0.1:8081").build();
        try (var producer = provider.newProducerBuilder().setClientConfiguration(server)
                 .setTopics("orders").build()) {
            var message = provider.newMessageBuilder().setTopic("orders").setTag("greeting")
                .setBody("hello from Java".getBytes(StandardCharsets.UTF_8)).build();
            System.out.println("sent " + producer.send(message).getMessageId());
        }
        try (var consumer = provider.newSimpleConsumerBuilder().setClientConfiguration(server)
                 .setConsumerGroup("shop").setAwaitDuration(Duration.ofSeconds(5))
                 .setSubscriptionExpressions(Map.of("orders", FilterExpression.SUB_ALL)).build()) {
            for (var received : consumer.receive(32, Duration.ofSeconds(15))) {
                System.out.println("received " + StandardCharsets.UTF_8.decode(received.getBody()));
                consumer.ack(received);
            }
        }
    }
}
