package interop;

import static interop.Scenario.check;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** More consumers than queues. */
final class Sharing {
    private static final int CONSUMERS = 3;
    private static final int MESSAGES = 90;

    static String shareQueue(Lab lab) throws Exception {
        Producer producer = lab.producer(lab.topic());
        List<String> all = Collections.synchronizedList(new ArrayList<>());
        AtomicBoolean stop = new AtomicBoolean();
        ExecutorService pool = Executors.newFixedThreadPool(CONSUMERS);
        List<Future<Integer>> counts = new ArrayList<>();
        for (int i = 0; i < CONSUMERS; i++) {
            Reader reader = lab.reader().primed(() -> producer.send(lab.primer().build()));
            counts.add(pool.submit(() -> consume(reader, all, stop)));
        }
        for (int i = 0; i < MESSAGES; i++) {
            producer.send(lab.message("m" + i).build());
        }
        lab.step("waiting for the messages");
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (all.size() < MESSAGES && System.nanoTime() < deadline) {
            Thread.sleep(100);
        }
        stop.set(true);
        List<Integer> shares = new ArrayList<>();
        for (Future<Integer> count : counts) {
            shares.add(count.get());
        }
        pool.shutdown();
        check(new HashSet<>(all).size() == MESSAGES, "%d of %d came", new HashSet<>(all).size(), MESSAGES);
        check(all.size() == MESSAGES, "%d deliveries of %d messages", all.size(), MESSAGES);
        check(!shares.contains(0), "one consumer got nothing: %s", shares);
        return "shares " + shares;
    }

    private static int consume(Reader reader, List<String> all, AtomicBoolean stop) throws Exception {
        int count = 0;
        while (!stop.get()) {
            for (MessageView message : reader.take(2, Duration.ofSeconds(60), Duration.ZERO)) {
                all.add(Lab.label(message));
                count++;
                // Some work, so that no consumer can take everything.
                Thread.sleep(20);
                reader.consumer.ack(message);
            }
        }
        return count;
    }
}
