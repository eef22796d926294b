#!/bin/bash
# Make a certificate authority for tests, and the certificates of a queue manager and of a client:
#     bash deploy/mq/make-certificates.sh DIRECTORY [HOST…]
# The queue manager's certificate is for these hosts (mq and localhost by default). A second call
# replaces everything. The certificates are valid for 30 days. Only the mode of the directory
# protects the keys: do not use them in production.
#
# DIRECTORY/queue-manager/{tls.key,tls.crt,ca.crt}  for /etc/mqm/pki/keys/mqdlq of IBM's container
# DIRECTORY/trust/tls.crt                           for /etc/mqm/pki/trust/0
# DIRECTORY/client/key.p12                          the client's key repository, label mqdlq
# DIRECTORY/client/password                         its password, for the variable MQKEYRPWD
set -eu
umask 077

[ $# -ge 1 ] || {
  echo "usage: deploy/mq/make-certificates.sh DIRECTORY [HOST…]" >&2
  exit 2
}
mkdir -p "$1"
chmod 0700 "$1"
cd "$1"
shift
[ $# -gt 0 ] || set -- mq localhost
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quietly() { # command: print its output only if it fails
  "$@" >"$work/output" 2>&1 || {
    cat "$work/output" >&2
    exit 1
  }
}

sign() { # name, subject, extensions
  quietly openssl req -new -newkey rsa:3072 -nodes -subj "$2" \
    -keyout "$work/$1.key" -out "$work/$1.csr"
  printf '%s\n' "$3" >"$work/$1.extensions"
  quietly openssl x509 -req -days 30 -sha256 -in "$work/$1.csr" -extfile "$work/$1.extensions" \
    -CA trust/tls.crt -CAkey "$work/ca.key" -CAcreateserial -CAserial "$work/ca.serial" \
    -out "$work/$1.crt"
}

rm -rf queue-manager trust client
mkdir queue-manager trust client
quietly openssl req -x509 -newkey rsa:3072 -nodes -days 30 -sha256 \
  -subj "/O=mqdlq/CN=mqdlq test authority" -addext "keyUsage=critical,keyCertSign,cRLSign" \
  -keyout "$work/ca.key" -out trust/tls.crt
hosts=$(printf ',DNS:%s' "$@")
sign queue-manager "/O=mqdlq/CN=QM1" "subjectAltName=${hosts#,}
extendedKeyUsage=serverAuth"
sign client "/O=mqdlq/CN=mqdlq" "extendedKeyUsage=clientAuth"

mv "$work/queue-manager.key" queue-manager/tls.key
mv "$work/queue-manager.crt" queue-manager/tls.crt
cp trust/tls.crt queue-manager/ca.crt
# IBM's client of 9.3 and later reads a PKCS#12 file as its key repository. The file also holds the
# authority that the client trusts; the friendly name is the certificate's label.
openssl rand -hex 24 >client/password
quietly openssl pkcs12 -export -name mqdlq -in "$work/client.crt" -inkey "$work/client.key" \
  -certfile trust/tls.crt -out client/key.p12 -passout file:client/password
# Containers have other users. The mode of the directory keeps all others out.
chmod 0755 queue-manager trust client
chmod 0444 queue-manager/* trust/* client/*
