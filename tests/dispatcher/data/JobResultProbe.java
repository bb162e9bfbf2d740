import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.util.SerializedThrowable;

/** Asks for a job's result with Flink's own client: host, port, job id. */
public class JobResultProbe {
    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.ADDRESS, args[0]);
        configuration.set(RestOptions.PORT, Integer.parseInt(args[1]));
        try (RestClusterClient<String> client = new RestClusterClient<>(configuration, "probe")) {
            JobResult result = client.requestJobResult(JobID.fromHexString(args[2])).get(30, TimeUnit.SECONDS);
            SerializedThrowable cause = result.getSerializedThrowable().get();
            System.out.println(result.getJobStatus().get());
            System.out.println(cause.getOriginalErrorClassName());
            System.out.println(cause.deserializeError(JobResultProbe.class.getClassLoader()).getMessage());
            System.out.println(cause.getFullStringifiedStackTrace());
        }
    }
}
