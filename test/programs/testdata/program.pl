# A82: perl with processes, pipes, signals, sorting and a temporary file.
use strict;
use warnings;
use File::Temp 'tempfile';
use POSIX ':sys_wait_h';

pipe(my $r, my $w) or die $!;
my $pid = fork // die $!;
if (!$pid) { close $r; print $w "child"; close $w; exit 3 }
close $w;
print "read ", <$r>, "\n";
waitpid $pid, 0;
print "code ", WEXITSTATUS($?), "\n";
my ($fh, $name) = tempfile(UNLINK => 1);
print $fh "b\na\n";
close $fh;
print join(' ', map { s/\n//r } sort `cat $name`), "\n";
local $SIG{ALRM} = sub { print "alarm\n" };
alarm 1;
select undef, undef, undef, 30;
