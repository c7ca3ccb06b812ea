import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.maven.artifact.versioning.ComparableVersion;

/** Reads lines of versions with tabs between them, and writes their ranks as Maven itself orders them. */
class Rank {
    public static void main(String[] args) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            var versions = Arrays.stream(line.split("\t")).map(ComparableVersion::new).toArray(ComparableVersion[]::new);
            var order = versions.clone();
            Arrays.sort(order);
            var out = new StringBuilder();
            for (var version : versions) {
                int rank = 0;
                for (int at = 1; at < order.length; at++) {
                    if (order[at - 1].compareTo(version) >= 0) {
                        break;
                    }
                    rank += order[at - 1].compareTo(order[at]) == 0 ? 0 : 1;
                }
                out.append(out.length() == 0 ? "" : " ").append(rank);
            }
            System.out.println(out);
        }
    }
}
