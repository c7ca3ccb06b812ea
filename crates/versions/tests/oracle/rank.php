<?php
// Reads lines of versions with tabs between them, and writes their ranks as Composer orders them.
require '/usr/share/php/Composer/Semver/autoload.php';

$parser = new Composer\Semver\VersionParser();
while (($line = fgets(STDIN)) !== false) {
    $versions = [];
    foreach (explode("\t", rtrim($line, "\n")) as $text) {
        try {
            $versions[] = $parser->normalize($text);
        } catch (UnexpectedValueException $refused) {
            $versions[] = null;
        }
    }
    $order = array_filter($versions, fn($version) => $version !== null);
    usort($order, fn($a, $b) => version_compare($a, $b));
    $distinct = [];
    foreach ($order as $version) {
        if (!$distinct || version_compare(end($distinct), $version) !== 0) {
            $distinct[] = $version;
        }
    }
    $ranks = [];
    foreach ($versions as $version) {
        $rank = '-';
        foreach ($distinct as $at => $other) {
            if ($version !== null && version_compare($version, $other) === 0) {
                $rank = $at;
            }
        }
        $ranks[] = $rank;
    }
    echo implode(' ', $ranks), "\n";
}
