# Reads lines of versions with tabs between them, and writes their ranks as Debian's own module orders them.
use strict;
use warnings;
use Dpkg::Version;

while (my $line = <STDIN>) {
    chomp $line;
    my @versions = map { my $version = Dpkg::Version->new($_, check => 1); $version } split /\t/, $line;
    my @order = sort { $a <=> $b } grep { defined && $_->is_valid } @versions;
    my ($rank, $last, %ranks) = (-1, undef);
    for my $version (@order) {
        $rank++ if !defined $last || ($last <=> $version) != 0;
        $ranks{"$version"} = $rank;
        $last = $version;
    }
    print join(" ", map { defined && $_->is_valid ? $ranks{"$_"} : "-" } @versions), "\n";
}
