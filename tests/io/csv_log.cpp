// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/csv_log.hpp>

#include <sys/stat.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "temporary_folder.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("numbers keep their bits, and text is quoted where it must be") {
    CHECK(CsvField(0.1).text() == "0.1");
    CHECK(CsvField(0.1f).text() == "0.1");
    CHECK(CsvField(static_cast<double>(0.1f)).text() == "0.10000000149011612");
    CHECK(CsvField(1e-300).text() == "1e-300");
    CHECK(CsvField(-0.0).text() == "-0");
    CHECK(CsvField(std::nan("")).text() == "nan");
    CHECK(CsvField(std::copysign(std::nan(""), -1.0)).text() == "nan");
    CHECK(CsvField(-std::numeric_limits<float>::infinity()).text() == "-inf");
    CHECK(CsvField(std::numeric_limits<std::uint64_t>::max()).text() == "18446744073709551615");
    CHECK(CsvField(-5).text() == "-5");
    CHECK(CsvField(true).text() == "1");
    CHECK(CsvField(std::nullopt).text() == "");
    CHECK(CsvField(std::optional<double>()).text() == "");
    CHECK(CsvField(std::optional<double>(0.5)).text() == "0.5");
    CHECK(CsvField("plain text").text() == "plain text");
    CHECK(CsvField("a, b").text() == "\"a, b\"");
    CHECK(CsvField(std::string("say \"a\"")).text() == "\"say \"\"a\"\"\"");
    CHECK(CsvField("two\nlines").text() == "\"two\nlines\"");
    CHECK(CsvField("\r").text() == "\"\r\"");
}

TEST_CASE("a row is in the file as soon as it is written") {
    const TemporaryFolder folder;
    set_content(folder / "log", "another log");
    CsvLog log(folder / "log", {"step", "loss, train", "note"});
    CHECK(content_of(folder / "log") == "step,\"loss, train\",note\n");
    log.write({1, 0.5, "x"});
    CHECK(content_of(folder / "log") == "step,\"loss, train\",note\n1,0.5,x\n");
    log.write({2u, std::nullopt, "a\nb"});
    CHECK(content_of(folder / "log") == "step,\"loss, train\",note\n1,0.5,x\n2,,\"a\nb\"\n");
    CHECK(folder.files() == 1);
}

TEST_CASE("rows that do not fit are refused") {
    const TemporaryFolder folder;
    CsvLog log(folder / "log", {"step", "loss"});
    CHECK_THROWS_WITH_AS(log.write({1}), "CsvLog: a row has 1 fields, expected 2", std::invalid_argument);
    CHECK_THROWS_WITH_AS(log.write({1.5, 2}), "CsvLog: a row begins with '1.5', expected a step",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(log.write({-1, 2}), "CsvLog: a row begins with '-1', expected a step", std::invalid_argument);
    CHECK_THROWS_WITH_AS(log.write({std::nullopt, 2}), "CsvLog: a row begins with '', expected a step",
                         std::invalid_argument);
    CHECK(content_of(folder / "log") == "step,loss\n");
    CHECK_THROWS_WITH_AS(CsvLog(folder / "log", {}), "CsvLog: there are no columns, expected at least a step",
                         std::invalid_argument);
}

TEST_CASE("a log that is resumed loses the rows that will be written again, and a half-written line") {
    const TemporaryFolder folder;
    const std::string kept = "step,note\n1,\"a\n9,b\"\n2,x\n";
    for (const std::string tail : {"", "3,y\n", "3,y\n4,z\n", "3", "3,\"", "3,y\n4,\"half\n1,", "30,y\n2", "1"}) {
        CAPTURE(tail);
        set_content(folder / "log", kept + tail);
        {
            CsvLog log = CsvLog::resume(folder / "log", {"step", "note"}, 3);
            CHECK(content_of(folder / "log") == kept);
            log.write({3, "new"});
        }
        CHECK(content_of(folder / "log") == kept + "3,new\n");
    }
    set_content(folder / "log", kept);
    CsvLog::resume(folder / "log", {"step", "note"}, 0);
    CHECK(content_of(folder / "log") == "step,note\n");
    CsvLog::resume(folder / "new", {"step", "note"}, 7);
    CHECK(content_of(folder / "new") == "step,note\n");
    CHECK(folder.files() == 2);
}

TEST_CASE("a file that is not this run's log is refused, and stays as it is") {
    const TemporaryFolder folder;
    const auto refused = [&](const std::string& content, const std::string& sentence) {
        CAPTURE(content);
        set_content(folder / "log", content);
        CHECK_THROWS_WITH_AS(CsvLog::resume(folder / "log", {"step", "loss"}, 3),
                             ("log '" + (folder / "log").string() + "': " + sentence).c_str(), std::runtime_error);
        CHECK(content_of(folder / "log") == content);
    };
    refused("step,loss,accuracy\n1,2,3\n", "its columns are 'step,loss,accuracy', this run's are 'step,loss'");
    refused("step,loss", "its columns are 'step,loss', this run's are 'step,loss'");
    refused("", "its columns are '', this run's are 'step,loss'");
    refused("step,loss\n1,2\nmore,3\n", "row 3 begins with 'more', expected a step");
    refused("step,loss\n\n", "row 2 begins with '', expected a step");
    refused("step,loss\n99999999999999999999,3\n", "row 2 begins with '99999999999999999999', expected a step");
}

TEST_CASE("a row that cannot be written leaves nothing behind") {
    const TemporaryFolder folder;
    CsvLog log(folder / "log", {"step", "note"});
    log.write({1, "x"});
    {
        const FileSizeLimit limit(20);
        CHECK_THROWS_WITH_AS(log.write({2, std::string(50, 'y')}),
                             ("'" + (folder / "log").string() + "' could not be written: File too large").c_str(),
                             std::runtime_error);
        CHECK(content_of(folder / "log") == "step,note\n1,x\n");
    }
    log.write({3, "z"});
    CHECK(content_of(folder / "log") == "step,note\n1,x\n3,z\n");
    CHECK_THROWS_AS(CsvLog(folder / "absent" / "log", {"step"}), std::runtime_error);
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK_THROWS_AS(CsvLog(folder / "pipe", {"step"}), std::runtime_error);
}
