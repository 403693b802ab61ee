// SPDX-License-Identifier: BSD-3-Clause
//
// Tensors to and from safetensors files, for the tests of either.
#pragma once

#include <bit>
#include <filesystem>
#include <normplace/io/safetensors_file.hpp>
#include <string>
#include <utility>
#include <vector>

namespace normplace::test {

inline std::filesystem::path golden(const char* name) { return std::filesystem::path(NORMPLACE_GOLDEN_DIR) / name; }

template <class T>
NamedTensor<T> tensor(std::string name, std::vector<std::size_t> shape, std::vector<T>& entries) {
    return {std::move(name), std::move(shape), entries};
}

template <class T>
std::vector<T> read(SafetensorsFile& file, const std::string& name) {
    std::size_t count = 1;
    for (const std::size_t extent : file.shape(name)) count *= extent;
    std::vector<T> entries(count);
    file.read(tensor(name, file.shape(name), entries));
    return entries;
}

template <class Bits, class T>
std::vector<Bits> bits(const std::vector<T>& numbers) {
    std::vector<Bits> all;
    for (const T number : numbers) all.push_back(std::bit_cast<Bits>(number));
    return all;
}

/// A file with this header, of its right length, and then `data`.
inline std::string file_of(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i) & 255u);
    return bytes + header + data;
}

}  // namespace normplace::test
