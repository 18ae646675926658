import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Reads the same orders as the dispatchers, with RocketMQ's 4.x client, as a program written for Apache's broker does. */
public class CourseConsumer {
    private static final Pattern ORDER = Pattern.compile("\"id\":(\\d+),.*\"area\":\"([^\"]*)\"");

    public static void main(String[] arguments) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("taxi-course");
        consumer.setNamesrvAddr(arguments[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe("taxi-orders", "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            messages.forEach(message -> {
                Matcher order = ORDER.matcher(new String(message.getBody(), StandardCharsets.UTF_8));
                if (order.find()) {
                    System.out.println("order " + order.group(2) + " " + order.group(1));
                }
            });
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
    }
}
