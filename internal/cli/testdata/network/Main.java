import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Fetches: URL [CA]. */
class Main {
    public static void main(String[] args) throws Exception {
        var builder = HttpClient.newBuilder();
        if (args.length > 1) {
            var store = KeyStore.getInstance(KeyStore.getDefaultType());
            store.load(null, null);
            try (var file = new FileInputStream(args[1])) {
                store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
            }
            var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
            trust.init(store);
            var context = SSLContext.getInstance("TLS");
            context.init(null, trust.getTrustManagers(), null);
            builder.sslContext(context);
        }
        var answer = builder.build().send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofString());
        System.out.print("java " + answer.body());
    }
}
