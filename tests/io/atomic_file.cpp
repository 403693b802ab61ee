// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/atomic_file.hpp>

#include <stdexcept>
#include <string>

#include "temporary_folder.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("a file is replaced on commit, and not before") {
    const TemporaryFolder folder;
    set_content(folder / "file", "old");
    {
        AtomicFile file(folder / "file");
        file.write("new, ");
        file.write("and longer");
        CHECK(content_of(folder / "file") == "old");
        CHECK(folder.files() == 2);
        file.commit();
    }
    CHECK(content_of(folder / "file") == "new, and longer");
    CHECK(folder.files() == 1);
}

TEST_CASE("without a commit nothing changes and nothing is left") {
    const TemporaryFolder folder;
    set_content(folder / "file", "old");
    { AtomicFile(folder / "file").write("new"); }
    { AtomicFile(folder / "other").write("new"); }
    CHECK(content_of(folder / "file") == "old");
    CHECK(folder.files() == 1);
}

TEST_CASE("a full disk leaves the old file") {
    const TemporaryFolder folder;
    set_content(folder / "file", "old");
    const std::string sentence = std::string("'").append(folder / "file") + "' could not be written: File too large";
    {
        const FileSizeLimit limit(1000);
        AtomicFile file(folder / "file");
        CHECK_THROWS_WITH_AS(file.write(std::string(100000, 'x')), sentence.c_str(), std::runtime_error);
        CHECK_THROWS_AS(file.commit(), std::runtime_error);  // not what was written before the failure
    }
    {
        const FileSizeLimit limit(1000);
        AtomicFile file(folder / "file");
        file.write(std::string(1001, 'x'));  // stays in the stream's memory
        CHECK_THROWS_WITH_AS(file.commit(), sentence.c_str(), std::runtime_error);
    }
    CHECK(content_of(folder / "file") == "old");
    CHECK(folder.files() == 1);
}

TEST_CASE("two writers of one file do not meet") {
    const TemporaryFolder folder;
    AtomicFile one(folder / "file"), two(folder / "file");
    one.write("one");
    two.write("two");
    two.commit();
    CHECK(content_of(folder / "file") == "two");
    one.commit();
    CHECK(content_of(folder / "file") == "one");
    CHECK(folder.files() == 1);
    CHECK_THROWS_AS(one.write("more"), std::runtime_error);
    CHECK_THROWS_AS(one.commit(), std::runtime_error);
}

TEST_CASE("a link is followed and permissions stay") {
    const TemporaryFolder folder;
    set_content(folder / "file", "old");
    std::filesystem::permissions(folder / "file", std::filesystem::perms::owner_read);
    std::filesystem::create_symlink("file", folder / "link");
    AtomicFile file(folder / "link");
    file.write("new");
    file.commit();
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(content_of(folder / "file") == "new");
    CHECK(std::filesystem::status(folder / "file").permissions() == std::filesystem::perms::owner_read);
}

TEST_CASE("what cannot be replaced is refused") {
    const TemporaryFolder folder;
    CHECK_THROWS_WITH_AS(
        AtomicFile("/dev/null"),
        "'/dev/null' could not be written: it is a folder or a device, and would be replaced by a file",
        std::runtime_error);
    CHECK_THROWS_AS(AtomicFile(folder.path()), std::runtime_error);
    CHECK_THROWS_WITH_AS(
        AtomicFile(folder / "absent" / "file"),
        (std::string("'").append(folder / "absent" / "file") + "' could not be written: No such file or directory")
            .c_str(),
        std::runtime_error);
    CHECK(folder.files() == 0);
}
