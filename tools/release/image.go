package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// In the image nobody is root, and what is kept lies in one folder.
const (
	imageUser = 65532
	imageHome = "/var/lib/nacre"
)

// blob is a part of an image, named by its own digest.
type blob struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	data []byte
}

func blobOf(mediaType string, data []byte) blob {
	sum := sha256.Sum256(data)
	return blob{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: len(data), data: data}
}

func (b blob) path() string { return "blobs/" + strings.Replace(b.Digest, ":", "/", 1) }

// image writes an image that holds the products and nothing else, as an archive that
// engines load: by OCI's image layout, and by the manifest.json that docker read before it.
func (t target) image(products ...product) (err error) {
	plain, packed, err := t.layer(products)
	if err != nil {
		return err
	}
	const oci = "application/vnd.oci.image."
	layer := blobOf(oci+"layer.v1.tar+gzip", packed)
	config, err := t.object(oci+"config.v1+json", map[string]any{
		"architecture": t.arch, "os": "linux", "created": t.made.Format(time.RFC3339),
		"config": map[string]any{
			"User": "nacre", "WorkingDir": imageHome, "Env": []string{"PATH=/usr/bin", "HOME=" + imageHome},
			"Entrypoint": []string{"/usr/bin/nacre"}, "Cmd": []string{"serve"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{blobOf("", plain).Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := t.object(oci+"manifest.v1+json", map[string]any{
		"schemaVersion": 2, "mediaType": oci + "manifest.v1+json", "config": config, "layers": []blob{layer},
	})
	if err != nil {
		return err
	}
	name := "nacre:" + strings.TrimPrefix(t.version, "v")
	manifest.Platform = map[string]string{"architecture": t.arch, "os": "linux"}
	manifest.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": name}
	index, err := t.object("", map[string]any{"schemaVersion": 2, "mediaType": oci + "index.v1+json", "manifests": []blob{manifest}})
	if err != nil {
		return err
	}
	docker, err := t.object("", []map[string]any{{"Config": config.path(), "RepoTags": []string{name}, "Layers": []string{layer.path()}}})
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(t.out, t.name("nacre", ".image.tar")))
	if err != nil {
		return err
	}
	defer func() { err = first(err, out.Close()) }()
	archive := tar.NewWriter(out)
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index.data}, {"manifest.json", docker.data},
		{config.path(), config.data}, {layer.path(), layer.data}, {manifest.path(), manifest.data},
	} {
		if err := t.entry(archive, tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644}, f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// object is a part of an image that is JSON.
func (t target) object(mediaType string, value any) (blob, error) {
	data, err := json.Marshal(value)
	return blobOf(mediaType, data), err
}

// layer is the file system of the image, and the same packed.
func (t target) layer(products []product) (plain, packed []byte, err error) {
	var text bytes.Buffer
	archive := tar.NewWriter(&text)
	for _, folder := range []tar.Header{
		{Name: "etc/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}, {Name: "usr/", Mode: 0o755}, owned(""), owned(".config/"), owned(".config/nacre/"),
	} {
		folder.Typeflag = tar.TypeDir
		if err := t.entry(archive, folder, nil); err != nil {
			return nil, nil, err
		}
	}
	users := fmt.Sprintf("nacre:x:%d:%d::%s:/nonexistent\n", imageUser, imageUser, imageHome)
	if err := t.entry(archive, tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(users)); err != nil {
		return nil, nil, err
	}
	for _, p := range products {
		if err := p.into(archive, "usr"); err != nil {
			return nil, nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, nil, err
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err = writer.Write(text.Bytes())
	err = first(err, writer.Close())
	return text.Bytes(), zipped.Bytes(), err
}

// owned is a folder of the image's home: what an engine makes there, where config.toml is mounted, is root's.
func owned(name string) tar.Header {
	return tar.Header{Name: strings.TrimPrefix(imageHome, "/") + "/" + name, Mode: 0o700, Uid: imageUser, Gid: imageUser}
}

// entry writes one file or folder of an archive.
func (t target) entry(archive *tar.Writer, header tar.Header, data []byte) error {
	header.Size, header.ModTime = int64(len(data)), t.made
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err := archive.Write(data)
	return err
}
