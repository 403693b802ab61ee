// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/safetensors.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "read_tensors.hpp"
#include "temporary_folder.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("a file of the format's own library is read bit for bit, and written again byte for byte") {
    SafetensorsFile file(golden("types.safetensors"));
    const std::string accented = "Größe \"1\"\n";
    CHECK(file.names() == std::vector<std::string>{accented, "double", "empty", "integer", "scalar", "single"});
    CHECK(file.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
    CHECK(file.dtype("single") == "F32");
    CHECK(file.dtype("double") == "F64");
    CHECK(file.dtype("integer") == "I64");
    CHECK(file.shape("single") == std::vector<std::size_t>{2, 3});
    CHECK(file.shape("scalar").empty());
    CHECK(file.contains("empty"));
    CHECK_FALSE(file.contains("__metadata__"));

    auto single = read<float>(file, "single"), scalar = read<float>(file, "scalar"), empty = read<float>(file, "empty");
    auto precise = read<double>(file, "double"), large = read<double>(file, accented);
    auto integer = read<std::int64_t>(file, "integer");
    CHECK(bits<std::uint32_t>(single) ==
          std::vector<std::uint32_t>{0x3F800000, 0x80000000, 1, 0x7F7FFFFF, 0x7F800000, 0x7FC12345});
    CHECK(bits<std::uint64_t>(precise) == std::vector<std::uint64_t>{0x3FF0000000000000, std::uint64_t{1} << 63, 1,
                                                                     0xFFF0000000000000, 0x7FF8000000012345});
    CHECK(integer == std::vector{std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
    CHECK(scalar == std::vector{3.5f});
    CHECK(large == std::vector{0.25});
    CHECK(empty.empty());

    const TemporaryFolder folder;
    write_safetensors(
        folder / "again",
        {tensor("scalar", {}, scalar), tensor("empty", {0, 3}, empty), tensor("single", {2, 3}, single),
         tensor("double", {5}, precise), tensor("integer", {2, 1}, integer), tensor(accented, {1}, large)},
        file.metadata());
    CHECK(content_of(folder / "again") == content_of(golden("types.safetensors")));
}

TEST_CASE("all bits come back, in large tensors as well") {
    const TemporaryFolder folder;
    std::mt19937_64 random(1);
    std::vector<float> single(10007);
    std::vector<double> precise(5003);
    std::vector<std::int64_t> integers(11);
    for (auto& entry : single) entry = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    for (auto& entry : precise) entry = std::bit_cast<double>(std::uint64_t{random()});
    for (auto& entry : integers) entry = static_cast<std::int64_t>(random());
    const std::vector<StoredTensor> tensors{tensor("b", {10007}, single), tensor("c", {5003, 1}, precise),
                                            tensor("a", {11}, integers)};
    const std::map<std::string, std::string> metadata{{"key", "\"quoted\" ä\n"}, {"", ""}};
    write_safetensors(folder / "file", tensors, metadata);
    SafetensorsFile file(folder / "file");
    CHECK(bits<std::uint32_t>(read<float>(file, "b")) == bits<std::uint32_t>(single));
    CHECK(bits<std::uint64_t>(read<double>(file, "c")) == bits<std::uint64_t>(precise));
    CHECK(read<std::int64_t>(file, "a") == integers);
    CHECK(file.metadata() == metadata);
    const auto widened = read<double>(file, "b");
    for (std::size_t i = 0; i < single.size(); ++i)
        if (!(std::isnan(single[i]) ? std::isnan(widened[i]) : widened[i] == static_cast<double>(single[i])))
            FAIL_CHECK(single[i] << " became " << widened[i]);

    // The order they are given in makes no difference, and the entries are aligned.
    write_safetensors(folder / "other order", {tensors[2], tensors[1], tensors[0]}, metadata);
    CHECK(content_of(folder / "other order") == content_of(folder / "file"));
    CHECK((content_of(folder / "file").size() - 11 * 8 - 5003 * 8 - 10007 * 4) % 8 == 0);
}

TEST_CASE("no tensors, and no metadata") {
    const TemporaryFolder folder;
    write_safetensors(folder / "file", std::vector<StoredTensor>{});
    CHECK(content_of(folder / "file") == file_of("{}      ", ""));
    CHECK(SafetensorsFile(folder / "file").names().empty());
}

TEST_CASE("what cannot be written is refused, and the old file stays") {
    const TemporaryFolder folder;
    set_content(folder / "file", "old");
    std::vector<float> entries(3);
    const auto refused = [&](const std::vector<NamedTensor<float>>& tensors, const char* sentence) {
        CHECK_THROWS_WITH_AS(write_safetensors(folder / "file", tensors), sentence, std::invalid_argument);
    };
    refused({tensor("a", {3}, entries), tensor("a", {3, 1}, entries)},
            "safetensors: two tensors have the name 'a', or it is reserved");
    refused({tensor("__metadata__", {3}, entries)},
            "safetensors: two tensors have the name '__metadata__', or it is reserved");
    refused({tensor("a", {2}, entries)}, "safetensors: 'a' has 3 entries, its shape is (2)");
    refused({tensor("a", {std::size_t{1} << 63, 2}, entries)},
            "safetensors: 'a' has 3 entries, its shape is (9223372036854775808, 2)");
    refused({tensor("\xff", {3}, entries)}, "safetensors: a name or the metadata is not UTF-8");
    {
        const FileSizeLimit limit(70);  // the header goes through, the entries do not
        CHECK_THROWS_AS(write_safetensors(folder / "file", std::vector{tensor("a", {3}, entries)}), std::runtime_error);
    }
    CHECK(content_of(folder / "file") == "old");
    CHECK(folder.files() == 1);
}
