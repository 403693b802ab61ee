// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <normplace/text/parallel_corpus.hpp>
#include <string>
#include <vector>

using namespace normplace;
using Strings = std::vector<std::string>;

namespace {

/// A folder that is gone with the test.
struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("normplace-parallel-corpus-" + std::to_string(::getpid()));
    Folder() { std::filesystem::create_directory(path); }
    ~Folder() { std::filesystem::remove_all(path); }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name, std::ios::binary) << text;
        return (path / name).string();
    }
};

template <class Call>
std::string refusal(const Call& call) {
    try {
        call();
    } catch (const std::runtime_error& error) {
        return error.what();
    }
    return "it was not refused";
}

}  // namespace

TEST_CASE("lines end in either way, and the last need not") {
    const Folder folder;
    CHECK(read_lines(folder.write("unix", "one\ntwo\n")) == Strings{"one", "two"});
    CHECK(read_lines(folder.write("windows", "one\r\ntwo\r\n")) == Strings{"one", "two"});
    CHECK(read_lines(folder.write("open", "one\n\ntwo")) == Strings{"one", "", "two"});
    CHECK(read_lines(folder.write("mark", "\xef\xbb\xbfone\n")) == Strings{"one"});
    CHECK(read_lines(folder.write("inside", "a\rb\n")) == Strings{"a\rb"});
}

TEST_CASE("a pair with an empty side is skipped or kept, and counted") {
    const Folder folder;
    const std::string source = folder.write("s", "a\n\nc\n \t\ne\n\n"), target = folder.write("t", "A\nB\n\nD\nE\n\n");
    const ParallelCorpus skipped = read_parallel_corpus(source, target);
    CHECK(skipped.source == Strings{"a", "e"});
    CHECK(skipped.target == Strings{"A", "E"});
    CHECK(skipped.empty == 4);
    const ParallelCorpus kept = read_parallel_corpus(source, target, EmptySentences::keep);
    CHECK(kept.size() == 6);
    CHECK(kept.target == Strings{"A", "B", "", "D", "E", ""});
    CHECK(kept.empty == 4);
}

TEST_CASE("files that cannot be read are refused with their name") {
    const Folder folder;
    const std::string missing = (folder.path / "missing").string(), empty = folder.write("empty", ""),
                      packed = folder.write("packed.gz", "\x1f\x8b\x08"), mark = folder.write("mark", "\xef\xbb\xbf");
    CHECK(refusal([&] { read_lines(missing); }) == missing + " cannot be opened");
    CHECK(refusal([&] { read_lines(folder.path.string()); }) == folder.path.string() + " is a directory");
    CHECK(refusal([&] { read_lines(empty); }) == empty + " is empty");
    CHECK(refusal([&] { read_lines(mark); }) == mark + " is empty");
    CHECK(refusal([&] { read_lines(packed); }) == packed + " is compressed: unpack it with gunzip first");
}

TEST_CASE("files of unequal length are refused with both numbers") {
    const Folder folder;
    const std::string source = folder.write("s", "a\nb\nc\n"), target = folder.write("t", "A\nB\n"),
                      blank = folder.write("b", "\n\n");
    CHECK(refusal([&] { read_parallel_corpus(source, target); }) ==
          source + " has 3 lines and " + target +
              " has 2: line i of one must be the translation of line i of the other");
    CHECK(refusal([&] { read_parallel_corpus(blank, target); }) ==
          blank + " and " + target + " have no pair of which neither side is empty");
    CHECK(read_parallel_corpus(blank, target, EmptySentences::keep).size() == 2);
}

TEST_CASE("a line that is not UTF-8 is refused with its number") {
    const Folder folder;
    for (const std::string bad : {"\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                                  "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82",
                                  "\xf0\x9f\x98", "\xc3x", "\xe2\x82x", "\xf0\x9f\x98x"}) {
        CAPTURE(bad);
        const std::string file = folder.write("bad", "fine\nalso " + bad + "\n");
        CHECK(refusal([&] { read_lines(file); }) == file + ": line 2 is not valid UTF-8");
    }
    // the first and the last of each length, and around the surrogates
    for (const std::string good : {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                                   "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        CAPTURE(good);
        CHECK(read_lines(folder.write("good", "fine\n" + good)) == Strings{"fine", good});
    }
}
