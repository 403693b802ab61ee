// SPDX-License-Identifier: BSD-3-Clause
//
// A file that is replaced whole or not at all, so that a full disk or a crash in the middle of a checkpoint leaves the
// one before. What is written goes to a file beside it, which takes its place only when it is safe on the disk.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace normplace {

namespace detail {

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using FileHandle = std::unique_ptr<std::FILE, CloseFile>;

[[noreturn]] inline void refuse_writing(const std::filesystem::path& path, const std::string& reason) {
    throw std::runtime_error("'" + path.string() + "' could not be written: " + reason);
}
/// @param error what errno was
[[noreturn]] inline void refuse_writing(const std::filesystem::path& path, int error) {
    refuse_writing(path, std::generic_category().message(error));
}

/// A new file beside `target`, open for writing, that no other process or thread has.
inline FileHandle make_beside(const std::filesystem::path& target, std::filesystem::path& name) {
    static std::atomic<unsigned> count{0};
    for (;;) {
        name = target;
        name += std::string(".").append(std::to_string(::getpid())) + "-" + std::to_string(count++) + ".tmp";
        FileHandle file(std::fopen(name.c_str(), "wbx"));
        if (file || errno != EEXIST) return file;  // one that exists is left from a process that was killed
    }
}

}  // namespace detail

/// Replaces `path` by what is written to it, on commit(). Until then, and when anything fails, the old file stays as it
/// is; without a commit the new one is removed. A link is followed, and the old file's permissions are kept.
///
/// A process that is killed while it writes leaves a file `path`.<numbers>.tmp, which may be deleted.
class AtomicFile {
public:
    /// @throws std::runtime_error when `path` is a folder or a device, or no file can be made beside it
    explicit AtomicFile(const std::filesystem::path& path) : path_(path), target_(path) {
        std::error_code ignored;
        const std::filesystem::file_status old = std::filesystem::status(path, ignored);
        const bool replaces = std::filesystem::exists(old);
        if (replaces && !std::filesystem::is_regular_file(old))
            detail::refuse_writing(path_, "it is a folder or a device, and would be replaced by a file");
        if (replaces) target_ = std::filesystem::canonical(path);
        file_ = detail::make_beside(target_, temporary_);
        if (!file_) detail::refuse_writing(path_, errno);
        if (replaces) std::filesystem::permissions(temporary_, old.permissions(), ignored);
    }
    ~AtomicFile() {
        file_.reset();
        if (!committed_) ::unlink(temporary_.c_str());
    }
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    /// @throws std::runtime_error with the system's reason, a full disk for instance
    void write(std::string_view bytes) {
        require_open();
        if (bytes.empty()) return;  // data() may be null
        if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
            detail::refuse_writing(path_, errno);
    }

    /// Waits until everything is on the disk, then puts it in the old file's place.
    /// @throws std::runtime_error with the system's reason
    void commit() {
        require_open();
        if (std::ferror(file_.get())) detail::refuse_writing(path_, "an earlier write failed");
        if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0) detail::refuse_writing(path_, errno);
        if (std::fclose(file_.release()) != 0) detail::refuse_writing(path_, errno);
        if (std::rename(temporary_.c_str(), target_.c_str()) != 0) detail::refuse_writing(path_, errno);
        committed_ = true;
        sync_folder();
    }

private:
    void require_open() const {
        if (!file_) detail::refuse_writing(path_, "it has been committed, or committing it has failed");
    }

    /// So that the new name survives a power failure too. Not every file system can, and the file is in place anyway.
    void sync_folder() const {
        const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
        const int descriptor = ::open(folder.c_str(), O_RDONLY);
        if (descriptor < 0) return;
        ::fsync(descriptor);
        ::close(descriptor);
    }

    std::filesystem::path path_, target_, temporary_;  // as the caller names it, where it lies, what is written
    detail::FileHandle file_;
    bool committed_ = false;
};

}  // namespace normplace
