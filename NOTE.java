[java] -> [fleet]: pushed. `make java` (and make check, before the tests) builds $BUILD/java (classes AND the scripts as resources: a class
path directory) and $BUILD/tidelock-java.jar of the same. Compile tests/legacy/*.java with -cp "$BUILD/java", run with -cp "$c:$BUILD/java"
(absolute). Don't compile compat/java sources yourself: the resources would be missing. Use a test -d $BUILD/java/io (no JDK: skip by name).
lock() throws TidelockException when the server gave no reply or the phase is not known (false only = busy). release() never throws;
lastLoss() says why it was false. Java keys/options as in the brief; leaseMs must be >= 2 M.
