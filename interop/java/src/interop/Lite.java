package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Lite topics of one parent: a consumer gets those it has subscribed to, each in order, and one that is stuck alone. */
final class Lite {
    static String push(Lab lab) throws Exception {
        List<String> done = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch failedOnce = new CountDownLatch(1);
        AtomicBoolean released = new AtomicBoolean();
        Producer producer = lab.producer(lab.topic());
        String stuck = lab.unique("stuck");
        String healthy = lab.unique("healthy");
        String other = lab.unique("other");
        // Before anybody has subscribed: a lite topic is often made by its first message.
        send(lab, producer, other, labels("other", 0, 1));
        send(lab, producer, healthy, labels("healthy", 0, 3));

        lab.step("starting the lite push consumer");
        LitePushConsumer consumer = lab.keep(Lab.PROVIDER.newLitePushConsumerBuilder()
            .setClientConfiguration(lab.configuration()).setConsumerGroup(lab.group()).bindTopic(lab.topic())
            .setMessageListener(message -> {
                String label = Lab.label(message);
                if (label.equals("stuck0") && !released.get()) {
                    failedOnce.countDown();
                    return ConsumeResult.FAILURE;
                }
                done.add(label + " of " + message.getLiteTopic().orElse("none"));
                return ConsumeResult.SUCCESS;
            }).build());
        consumer.subscribeLite(healthy);
        consumer.subscribeLite(stuck);
        lab.step("waiting for what was sent before");
        expect(done, in(healthy, labels("healthy", 0, 3)));

        lab.step("waiting for the first failure");
        send(lab, producer, stuck, labels("stuck", 0, 3));
        check(failedOnce.await(30, TimeUnit.SECONDS), "the first message did not come");
        lab.step("waiting for the healthy lite topic");
        send(lab, producer, other, labels("other", 1, 2));
        send(lab, producer, healthy, labels("healthy", 3, 8));
        expect(done, in(healthy, labels("healthy", 0, 8)));
        released.set(true);
        lab.step("waiting for the stuck lite topic");
        List<String> all = new ArrayList<>(in(healthy, labels("healthy", 0, 8)));
        all.addAll(in(stuck, labels("stuck", 0, 3)));
        expect(done, all);

        lab.step("unsubscribing");
        consumer.unsubscribeLite(healthy);
        send(lab, producer, healthy, labels("healthy", 8, 9));
        send(lab, producer, stuck, labels("stuck", 3, 4));
        all.addAll(in(stuck, labels("stuck", 3, 4)));
        expect(done, all);
        Thread.sleep(Duration.ofSeconds(3).toMillis());
        check(List.copyOf(done).equals(all), "after unsubscribing: %s", done);
        return "";
    }

    static String simple(Lab lab) throws Scenario.Skipped {
        throw new Scenario.Skipped("lite simple consumers are in no released version (client lacks the feature)");
    }

    private static void send(Lab lab, Producer producer, String lite, List<String> labels) throws Exception {
        for (String label : labels) {
            producer.send(lab.message(label).setLiteTopic(lite).build());
        }
    }

    private static List<String> labels(String name, int from, int to) {
        List<String> labels = new ArrayList<>();
        for (int i = from; i < to; i++) {
            labels.add(name + i);
        }
        return labels;
    }

    private static List<String> in(String lite, List<String> labels) {
        return labels.stream().map(label -> label + " of " + lite).toList();
    }

    private static void expect(List<String> done, List<String> expected) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
        while (done.size() < expected.size() && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
        check(List.copyOf(done).equals(expected), "expected %s, got %s", expected, done);
    }
}
