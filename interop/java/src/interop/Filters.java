package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.List;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.producer.Producer;

/** The topics have one queue, so the last message proves that nothing unwanted was delivered before it. */
final class Filters {
    static String tag(Lab lab) throws Exception {
        FilterExpression filter = new FilterExpression("a || b", FilterExpressionType.TAG);
        return run(lab, filter, lab.primer().setTag("a"), List.of(
            lab.message("a1").setTag("a"), lab.message("c1").setTag("c"), lab.message("none"),
            lab.message("A1").setTag("A"), lab.message("b1").setTag("b"), lab.message("last").setTag("a")),
            List.of("a1", "b1", "last"));
    }

    static String sql(Lab lab) throws Exception {
        FilterExpression filter = new FilterExpression(
            "(region = 'eu' AND amount BETWEEN 10 AND 20) OR TAGS = 'vip'", FilterExpressionType.SQL92);
        return run(lab, filter, lab.primer().setTag("vip"), List.of(
            order(lab, "in", "eu", "15"), order(lab, "far", "us", "15"), order(lab, "more", "eu", "21"),
            order(lab, "word", "eu", "many"), lab.message("bare"), order(lab, "vip", "us", "1").setTag("vip"),
            order(lab, "edge", "eu", "20"), lab.message("last").setTag("vip")),
            List.of("in", "vip", "edge", "last"));
    }

    private static MessageBuilder order(Lab lab, String label, String region, String amount) {
        return lab.message(label).addProperty("region", region).addProperty("amount", amount);
    }

    private static String run(Lab lab, FilterExpression filter, MessageBuilder primer, List<MessageBuilder> messages,
            List<String> wanted) throws Exception {
        Producer producer = lab.producer(lab.topic());
        Reader reader = lab.reader(lab.group(), lab.topic(), filter).primed(() -> producer.send(primer.build()));
        for (MessageBuilder message : messages) {
            producer.send(message.build());
        }
        List<String> got = reader.until("last", Duration.ofSeconds(40));
        check(got.equals(wanted), "got %s instead of %s", got, wanted);
        return "";
    }
}
