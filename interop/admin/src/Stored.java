import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Prints how many messages each topic has: Stored NAMESRV TOPIC... */
public final class Stored {
    public static void main(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = Operator.start(arguments[0]);
        try {
            for (int i = 1; i < arguments.length; i++) {
                var queues = admin.examineTopicStats(arguments[i]).getOffsetTable().values();
                long count = queues.stream().mapToLong(queue -> queue.getMaxOffset() - queue.getMinOffset()).sum();
                System.out.println(arguments[i] + " " + count);
            }
        } finally {
            admin.shutdown();
        }
    }
}
