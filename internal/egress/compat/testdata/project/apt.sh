# apt as an ordinary user, with folders of its own: sh apt.sh SCHEME
set -eu
d=/tmp/apt
mkdir -p $d/state/lists/partial $d/cache/archives/partial $d/etc/apt.conf.d $d/etc/preferences.d
: >$d/status
echo "deb [trusted=yes] $1://apt.compat.test/ ./" >$d/etc/sources.list
cat >$d/apt.conf <<END
Dir::State "$d/state"; Dir::State::status "$d/status"; Dir::Cache "$d/cache"; Dir::Etc "$d/etc"; Dir::Log "$d";
Acquire::https::CAInfo "$SSL_CERT_FILE"; APT::Architecture "amd64"; Acquire::Retries "0";
END
export APT_CONFIG=$d/apt.conf
cd $d
apt-get update
apt-get download dep
dpkg-deb --fsys-tarfile dep_1.0_all.deb | tar -xO ./usr/share/dep.txt
