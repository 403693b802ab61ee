// SPDX-License-Identifier: BSD-3-Clause
//
// Files are put together by hand here, or come from the format's own library.
#include <doctest/doctest.h>

#include <normplace/io/safetensors_file.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "read_tensors.hpp"
#include "temporary_folder.hpp"

using namespace normplace;
using namespace normplace::test;

namespace {

/// Opens a file and reads all of it that can be read.
void read_all(const std::filesystem::path& path) {
    SafetensorsFile file(path);
    for (const std::string& name : file.names()) {
        if (file.holds<double>(name)) read<double>(file, name);
        if (file.holds<float>(name)) read<float>(file, name);
        if (file.holds<std::int64_t>(name)) read<std::int64_t>(file, name);
    }
}

/// Whether the file was read; it may also be refused, with a sentence that names it.
bool is_read(const std::filesystem::path& path) {
    try {
        read_all(path);
        return true;
    } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).starts_with("safetensors file '" + path.string() + "': "));
        return false;
    }
}

}  // namespace

TEST_CASE("SafetensorsFile: names, shapes, types, metadata, and entries in any order") {
    const TemporaryFolder folder;
    // 1.5f and -2.0f, then the integer 258, little-endian
    set_content(folder / "file",
                file_of(R"({"b":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"__metadata__":{"step":"7"},)"
                        R"("a":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})",
                        std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0\x02\x01\0\0\0\0\0\0", 16)));
    SafetensorsFile file(folder / "file");
    CHECK(file.path() == folder / "file");
    CHECK(file.names() == std::vector<std::string>{"a", "b"});
    CHECK(file.metadata() == std::map<std::string, std::string>{{"step", "7"}});
    CHECK(file.shape("a").empty());
    CHECK(file.shape("b") == std::vector<std::size_t>{1, 2});
    CHECK(file.dtype("a") == "I64");
    CHECK(file.dtype("b") == "F32");
    for (int again = 0; again < 2; ++again) {
        CHECK(read<std::int64_t>(file, "a") == std::vector<std::int64_t>{258});
        CHECK(read<float>(file, "b") == std::vector{1.5f, -2.0f});
        CHECK(read<double>(file, "b") == std::vector{1.5, -2.0});
    }
    CHECK_THROWS_AS(file.shape("c"), std::runtime_error);
    CHECK_THROWS_AS(file.dtype("c"), std::runtime_error);
    CHECK_THROWS_AS(file.holds<float>("c"), std::runtime_error);
}

TEST_CASE("SafetensorsFile: which types hold which without loss") {
    const TemporaryFolder folder;
    struct Type {
        std::string dtype;
        std::size_t bytes;
        bool in_float, in_double, in_integer;
    };
    for (const Type& type :
         {Type{"F16", 2, true, true, false}, Type{"BF16", 2, true, true, false}, Type{"F32", 4, true, true, false},
          Type{"F64", 8, false, true, false}, Type{"I64", 8, false, false, true}, Type{"I32", 4, false, false, false},
          Type{"U64", 8, false, false, false}, Type{"BOOL", 1, false, false, false}}) {
        CAPTURE(type.dtype);
        set_content(folder / "file",
                    file_of("{\"a\":{\"dtype\":\"" + type.dtype + "\",\"shape\":[1],\"data_offsets\":[0," +
                                std::to_string(type.bytes) + "]}}",
                            std::string(type.bytes, '\0')));
        SafetensorsFile file(folder / "file");
        CHECK(file.holds<float>("a") == type.in_float);
        CHECK(file.holds<double>("a") == type.in_double);
        CHECK(file.holds<std::int64_t>("a") == type.in_integer);
    }
}

TEST_CASE("half precision becomes the numbers that PyTorch has for it") {
    SafetensorsFile file(golden("half.safetensors"));
    for (const std::string name : {"half", "brain"}) {
        const auto expected = read<float>(file, name + " as float"), single = read<float>(file, name);
        const auto precise = read<double>(file, name);
        REQUIRE(single.size() == 9);
        for (std::size_t i = 0; i < 8; ++i) {
            CHECK(std::bit_cast<std::uint32_t>(single[i]) == std::bit_cast<std::uint32_t>(expected[i]));
            CHECK(precise[i] == static_cast<double>(expected[i]));
        }
        CHECK(std::isnan(expected[8]));
        CHECK(std::isnan(single[8]));
        CHECK(std::isnan(precise[8]));
    }
    CHECK(file.dtype("flags") == "BOOL");
    CHECK_FALSE(file.holds<float>("flags"));
}

TEST_CASE("each of the 65536 halves") {
    for (std::uint32_t half = 0; half < 65536; ++half) {
        const int exponent = static_cast<int>(half >> 10 & 31u), fraction = static_cast<int>(half & 1023u);
        const float sign = half >> 15 ? -1.0f : 1.0f;
        float expected = sign * std::ldexp(static_cast<float>(exponent ? 1024 + fraction : fraction),
                                           exponent ? exponent - 25 : -24);
        if (exponent == 31) expected = sign * std::numeric_limits<float>::infinity();
        const float actual = detail::from_half(static_cast<std::uint16_t>(half));
        const bool right = exponent == 31 && fraction
                               ? std::isnan(actual)
                               : std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(expected);
        if (!right) FAIL_CHECK("half " << half << " became " << actual);
    }
}

TEST_CASE("what does not fit is not read") {
    const TemporaryFolder folder;
    set_content(folder / "file",
                file_of(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", std::string(16, '\0')));
    SafetensorsFile file(folder / "file");
    const std::string prefix = "safetensors file '" + (folder / "file").string() + "': ";
    std::vector<double> room(2, 7.0);
    std::vector<float> small_room(2, 7.0f);
    CHECK_THROWS_WITH_AS(file.read(tensor("b", {2}, room)), (prefix + "it has no tensor 'b'").c_str(),
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(file.read(tensor("a", {2, 1}, room)), (prefix + "a has shape (2), expected (2, 1)").c_str(),
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(file.read(tensor("a", {2}, small_room)), (prefix + "a has type F64, expected F32").c_str(),
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(file.read(tensor("a", {3}, room)), "safetensors: 'a' has room for 2 entries, its shape is (3)",
                         std::invalid_argument);
    CHECK(room == std::vector{7.0, 7.0});
    std::filesystem::resize_file(folder / "file", std::filesystem::file_size(folder / "file") - 1);
    CHECK_THROWS_WITH_AS(file.read(tensor("a", {2}, room)), (prefix + "it cannot be read to its end").c_str(),
                         std::runtime_error);
}

TEST_CASE("damaged files are refused with what is wrong") {
    const TemporaryFolder folder;
    const auto path = folder / "file";
    const auto refused = [&](const std::string& content, const std::string& sentence) {
        set_content(path, content);
        CHECK_THROWS_WITH_AS(read_all(path), ("safetensors file '" + path.string() + "': " + sentence).c_str(),
                             std::runtime_error);
    };
    const auto tensor_refused = [&](const std::string& header, const std::string& sentence) {
        refused(file_of(header, "12345678"), sentence);
    };
    const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return "{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
    };
    const std::string good = entry("\"F32\"", "[2]", "[0,8]");
    set_content(path, file_of("{\"a\":" + good + "}", "12345678"));
    CHECK_NOTHROW(read_all(path));

    refused("", "it has 0 bytes, too few for a header");
    refused("1234567", "it has 7 bytes, too few for a header");
    refused(std::string(8, '\0'), "its header is not JSON");
    refused(std::string("d\0\0\0\0\0\0\0{}", 10),
            "it announces a header of 100 bytes, it has 2 after that and the format allows 100000000");
    refused("A text file.",
            "it announces a header of 7359009851570397249 bytes, it has 4 after that and the format allows 100000000");
    set_content(path, std::string("\x01\xe1\xf5\x05\0\0\0\0{", 9));  // 100000001
    std::filesystem::resize_file(path, 100000020);
    CHECK_THROWS_WITH_AS(SafetensorsFile{path},
                         ("safetensors file '" + path.string() +
                          "': it announces a header of 100000001 bytes, it has "
                          "100000012 after that and the format allows 100000000")
                             .c_str(),
                         std::runtime_error);

    for (const std::string header :
         {"[]", "7", " {}", "{", "{}}", "{\"a\":}", "\xef\xbb\xbf{}", "{\"\xff\":1}", "{'a':1}"})
        tensor_refused(header, "its header is not JSON");
    tensor_refused(std::string("{}\0{}", 5), "its header is not JSON");
    tensor_refused("{\"a\":" + std::string(100000, '['), "its header is nested too deeply");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[[2]]", "[0,8]") + "}", "its header is nested too deeply");
    tensor_refused("{\"a\":" + good + ",\"a\":" + good + "}", "'a' appears twice in its header");
    tensor_refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F64\"}}", "'dtype' appears twice in its header");
    tensor_refused("{\"__metadata__\":[]}", "its metadata is no object");
    tensor_refused("{\"__metadata__\":{\"step\":1}}", "its metadata 'step' is no string");

    tensor_refused("{\"a\":1}", "'a' has no dtype");
    tensor_refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "'a' has no shape");
    tensor_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "'a' has no data_offsets");
    tensor_refused("{\"a\":" + entry("\"F31\"", "[2]", "[0,8]") + "}", "'a' has the unknown dtype \"F31\"");
    tensor_refused("{\"a\":" + entry("32", "[2]", "[0,8]") + "}", "'a' has the unknown dtype 32");
    for (const std::string shape : {"2", "[-2]", "[2.0]", "[\"2\"]", "[18446744073709551616]", "null"})
        tensor_refused("{\"a\":" + entry("\"F32\"", shape, "[0,8]") + "}",
                       "the shape of 'a' is no list of whole numbers");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[2]", "[0,-8]") + "}",
                   "the data_offsets of 'a' is no list of whole numbers");
    for (const std::string offsets : {"[]", "[0]", "[0,8,8]", "[8,0]"})
        tensor_refused("{\"a\":" + entry("\"F32\"", "[2]", offsets) + "}",
                       "the data_offsets of 'a' are no begin and end");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[4611686018427387904]", "[0,0]") + "}",
                   "'a' has shape (4611686018427387904), more than any file holds");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[4294967296,4294967296,0]", "[0,0]") + "}",
                   "'a' has shape (4294967296, 4294967296, 0), more than any file holds");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[3]", "[0,8]") + "}",
                   "'a' has shape (3) and type F32, 12 bytes, and its data_offsets span 8");

    const std::string first = entry("\"F32\"", "[1]", "[0,4]");
    tensor_refused("{\"a\":" + first + ",\"b\":" + first + "}",
                   "'b' begins at byte 0 of the data, where the tensor before it ends at 4");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[1]", "[4,8]") + "}",
                   "'a' begins at byte 4 of the data, where the tensor before it ends at 0");
    tensor_refused("{\"a\":" + first + "}", "its tensors end at byte 4 of the data, and it has 8");
    tensor_refused("{\"a\":" + entry("\"F32\"", "[3]", "[0,12]") + "}",
                   "its tensors end at byte 12 of the data, and it has 8");
    tensor_refused("{\"a\":" + good + ",\"b\":" + entry("\"F32\"", "[0]", "[4,4]") + "}",
                   "'b' begins at byte 4 of the data, where the tensor before it ends at 8");
    tensor_refused("{}", "its tensors end at byte 0 of the data, and it has 8");

    CHECK_THROWS_WITH_AS(
        SafetensorsFile(folder / "absent"),
        ("safetensors file '" + (folder / "absent").string() + "': it cannot be read: No such file or directory")
            .c_str(),
        std::runtime_error);
    CHECK_THROWS_WITH_AS(
        SafetensorsFile(folder.path()),
        ("safetensors file '" + folder.path().string() + "': it cannot be read: Is a directory").c_str(),
        std::runtime_error);
}

TEST_CASE("a file that is cut anywhere is refused, and one with any bit turned is refused or read") {
    const TemporaryFolder folder;
    for (const char* name : {"types.safetensors", "half.safetensors"}) {
        const std::string content = content_of(golden(name));
        set_content(folder / "file", content);
        REQUIRE(is_read(folder / "file"));
        for (std::size_t length = 0; length < content.size(); ++length) {
            set_content(folder / "file", content.substr(0, length));
            CHECK_FALSE(is_read(folder / "file"));
        }
        set_content(folder / "file", content + '\0');
        CHECK_FALSE(is_read(folder / "file"));

        std::size_t refused = 0;
        for (std::size_t bit = 0; bit < 8 * content.size(); ++bit) {
            std::string damaged = content;
            damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
            set_content(folder / "file", damaged);
            refused += !is_read(folder / "file");
        }
        CHECK(refused > 8 * 8);  // all of the length, among others
    }
}
