// SPDX-License-Identifier: BSD-3-Clause
//
// Files of named tensors in the safetensors format, which PyTorch reads with safetensors.torch.load_file. They are data
// and nothing else: reading one runs nothing, and a damaged one is refused with a sentence. The format, in order:
//
//     8 bytes     length N of the header, little-endian
//     N bytes     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} with, under
//                 "__metadata__", strings by name
//     the rest    entries, row-major, little-endian; offsets count from here; without holes or overlaps
//
// This header needs nlohmann-json; normplace.hpp does not include it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <normplace/detail/check.hpp>
#include <normplace/detail/element_type.hpp>
#include <normplace/io/atomic_file.hpp>
#include <normplace/io/safetensors_file.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace {

/// A tensor as it goes into a file; made from a NamedTensor of float, double or std::int64_t, const or not. It points
/// to the same entries.
struct StoredTensor {
    std::string name;
    std::string_view dtype;
    std::vector<std::size_t> shape;
    std::string_view bytes;

    template <class T>
    StoredTensor(const NamedTensor<T>& tensor)
        : name(tensor.name),
          dtype(detail::dtype_of<std::remove_const_t<T>>()),
          shape(tensor.shape),
          bytes(reinterpret_cast<const char*>(tensor.entries.data()), tensor.entries.size_bytes()) {
        detail::require(detail::has_count(shape, tensor.entries.size()), "safetensors", [&] {
            return "'" + name + "' has " + std::to_string(tensor.entries.size()) + " entries, its shape is " +
                   detail::shape_text(shape);
        });
    }
};

/// Writes tensors and `metadata` to a file, atomically (atomic_file.hpp). The same content gives the same bytes,
/// whatever the order of `tensors`.
/// @throws std::invalid_argument when two tensors have the same name, or text is not UTF-8
/// @throws std::runtime_error when the file cannot be written; the old one is then as it was
inline void write_safetensors(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {}) {
    std::ranges::sort(tensors, [](const StoredTensor& a, const StoredTensor& b) {
        const auto *type_a = detail::find_element_type(a.dtype), *type_b = detail::find_element_type(b.dtype);
        return type_a != type_b ? type_a > type_b : a.name < b.name;
    });
    std::set<std::string_view> names{"__metadata__"};
    const auto json = [](const auto& value) {
        try {
            return nlohmann::json(value).dump();
        } catch (const nlohmann::json::type_error&) {
            detail::refuse("safetensors", "a name or the metadata is not UTF-8");
        }
    };
    std::string header = "{";
    if (!metadata.empty()) header.append("\"__metadata__\":").append(json(metadata));
    std::size_t offset = 0;
    for (const StoredTensor& tensor : tensors) {
        detail::require(names.insert(tensor.name).second, "safetensors",
                        [&] { return "two tensors have the name '" + tensor.name + "', or it is reserved"; });
        const std::size_t end = offset + tensor.bytes.size();
        header.append(header.size() > 1 ? "," : "").append(json(tensor.name)) +=
            ":{\"dtype\":\"" + std::string(tensor.dtype) + "\",\"shape\":" + json(tensor.shape) +
            ",\"data_offsets\":" + json(std::vector{offset, end}) + "}";
        offset = end;
    }
    header += "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const std::uint64_t length = header.size();
    detail::require(length <= detail::longest_safetensors_header, "safetensors", [&] {
        return "names and metadata need " + std::to_string(length) + " bytes, the format allows " +
               std::to_string(detail::longest_safetensors_header);
    });

    AtomicFile file(path);
    file.write({reinterpret_cast<const char*>(&length), sizeof length});
    file.write(header);
    for (const StoredTensor& tensor : tensors) file.write(tensor.bytes);
    file.commit();
}
template <class T>
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor<T>>& tensors,
                       const std::map<std::string, std::string>& metadata = {}) {
    write_safetensors(path, std::vector<StoredTensor>(tensors.begin(), tensors.end()), metadata);
}

}  // namespace normplace
