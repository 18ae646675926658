import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Creates every topic and group of each file on every broker: Admin NAMESRV BROKER,BROKER... [FILE LANG,LANG...]... */
public final class Admin {
    public static void main(String[] arguments) throws Exception {
        DefaultMQAdminExt admin = Operator.start(arguments[0]);
        try {
            for (int i = 2; i + 1 < arguments.length; i += 2) {
                for (String broker : arguments[1].split(",")) {
                    createAll(admin, broker, Path.of(arguments[i]), List.of(arguments[i + 1].split(",")));
                }
            }
        } finally {
            admin.shutdown();
        }
    }

    private static void createAll(DefaultMQAdminExt admin, String broker, Path file, List<String> languages)
            throws Exception {
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank() && !line.startsWith("#")) {
                create(admin, broker, line, languages);
            }
        }
    }

    private static void create(DefaultMQAdminExt admin, String broker, String line, List<String> languages)
            throws Exception {
        for (String language : line.contains("{lang}") ? languages : List.of("")) {
            Entry entry = Entry.parse(line.replace("{lang}", language));
            // By the broker's address, not the cluster's name: the server needs no more than requests 17 and 200.
            switch (entry.kind()) {
                case "topic" -> admin.createAndUpdateTopicConfig(broker, entry.topic());
                case "group" -> admin.createAndUpdateSubscriptionGroupConfig(broker, entry.group());
                default -> throw new IllegalArgumentException("neither topic nor group: " + line);
            }
        }
    }
}
