package interop;

import static interop.Scenario.check;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * One message group is stuck on its first message while another one goes on. `fifo-order` has groups that Apache puts
 * into different queues; `fifo-same-queue` has a topic of one queue.
 */
final class Fifo {
    private static final String STUCK = "stuck";
    private static final String HEALTHY = "healthy";

    static String order(Lab lab) throws Exception {
        List<String> done = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch failedOnce = new CountDownLatch(1);
        AtomicBoolean released = new AtomicBoolean();
        Producer producer = lab.producer(lab.topic());
        lab.push((label, message) -> {
            if (label.equals(STUCK + 0) && !released.get()) {
                failedOnce.countDown();
                return false;
            }
            return done.add(label);
        }, () -> producer.send(lab.primer().setMessageGroup(HEALTHY).build()));

        // The rest of the group only once the first is in flight: it is the server that must hold it back.
        List<String> group = labels(STUCK, 3);
        send(lab, producer, STUCK, group.subList(0, 1));
        lab.step("waiting for the first failure");
        check(failedOnce.await(30, TimeUnit.SECONDS), "the first message did not come");
        send(lab, producer, STUCK, group.subList(1, 3));
        send(lab, producer, HEALTHY, labels(HEALTHY, 10));
        lab.step("waiting for the healthy group");
        waitFor(done, 10, 10);
        check(List.copyOf(done).equals(labels(HEALTHY, 10)), "while the other group is stuck: %s", done);

        released.set(true);
        lab.step("waiting for the stuck group");
        waitFor(done, 13, 30);
        check(List.copyOf(done).subList(10, done.size()).equals(group), "after its release: %s", done);
        return "";
    }

    private static void send(Lab lab, Producer producer, String group, List<String> labels) throws Exception {
        for (String label : labels) {
            producer.send(lab.message(label).setMessageGroup(group).build());
        }
    }

    private static List<String> labels(String group, int count) {
        List<String> labels = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            labels.add(group + i);
        }
        return labels;
    }

    private static void waitFor(List<String> done, int count, int seconds) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (done.size() < count && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
    }
}
