import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * Creates every topic and group of each file: Admin NAMESRV BROKER,BROKER... [FILE LANG,LANG...]...
 * A topic for one broker is on one that its name chooses; everything else is on all.
 */
public final class Admin {
    public static void main(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = Operator.start(arguments[0]);
        try {
            List<String> brokers = List.of(arguments[1].split(","));
            for (int i = 2; i + 1 < arguments.length; i += 2) {
                createAll(admin, brokers, Path.of(arguments[i]), List.of(arguments[i + 1].split(",")));
            }
        } finally {
            admin.shutdown();
        }
    }

    private static void createAll(DefaultMQAdminExt admin, List<String> brokers, Path file, List<String> languages)
            throws Exception {
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank() && !line.startsWith("#")) {
                create(admin, brokers, line, languages);
            }
        }
    }

    private static void create(DefaultMQAdminExt admin, List<String> brokers, String line, List<String> languages)
            throws Exception {
        for (String language : line.contains("{lang}") ? languages : List.of("")) {
            Entry entry = Entry.parse(line.replace("{lang}", language));
            for (String broker : entry.brokersOf(brokers)) {
                // By the broker's address, not the cluster's name: the server needs no more than requests 17 and 200.
                switch (entry.kind()) {
                    case "topic" -> admin.createAndUpdateTopicConfig(broker, entry.topic());
                    case "group" -> admin.createAndUpdateSubscriptionGroupConfig(broker, entry.group());
                    default -> throw new IllegalArgumentException("neither topic nor group: " + line);
                }
            }
        }
    }
}
