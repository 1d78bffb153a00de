# Fetches by HTTP: HOST PORT PATH.
use strict;
use warnings;
use IO::Socket::INET;

my ($host, $port, $path) = @ARGV;
my $socket = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Proto => 'tcp', Timeout => 20) or die "$host: $@\n";
print $socket "GET $path HTTP/1.0\r\nHost: $host\r\n\r\n";
my $answer = do { local $/; <$socket> };
$answer =~ s/.*?\r\n\r\n//s;
print "perl $answer";
