// SPDX-License-Identifier: BSD-3-Clause
//
// Reading a safetensors file (the format is described in safetensors.hpp). Its header is checked in full before
// anything is believed of it, and a tensor is read from the disk only when it is asked for.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <normplace/detail/check.hpp>
#include <normplace/detail/element_type.hpp>
#include <normplace/nn/parameter_list.hpp>

namespace normplace {

/// A file that is open for reading. The header is read and checked at once, tensors when they are asked for.
class SafetensorsFile {
public:
    /// @throws std::runtime_error when the file cannot be read or is not what the format demands
    explicit SafetensorsFile(const std::filesystem::path& path) : path_(path) {
        std::error_code error;
        const std::uint64_t size = std::filesystem::file_size(path, error);
        if (error) fail("it cannot be read: " + error.message());
        stream_.open(path, std::ios::binary);
        if (!stream_) fail("it cannot be read: " + std::generic_category().message(errno));
        if (size < 8) fail("it has " + std::to_string(size) + " bytes, too few for a header");
        std::uint64_t length = 0;
        read_bytes(reinterpret_cast<char*>(&length), sizeof length);
        if (length > size - 8 || length > detail::longest_safetensors_header)
            fail("it announces a header of " + std::to_string(length) + " bytes, it has " + std::to_string(size - 8) +
                 " after that and the format allows " + std::to_string(detail::longest_safetensors_header));
        data_ = 8 + length;
        std::string header(length, ' ');
        read_bytes(header.data(), length);
        const nlohmann::json json = parse(header);
        for (const auto& [name, value] : json.items())
            if (name == "__metadata__") add_metadata(value);
            else add_tensor(name, value);
        check_layout(size - data_);
    }

    const std::filesystem::path& path() const { return path_; }
    std::vector<std::string> names() const {
        std::vector<std::string> all;
        for (const auto& [name, tensor] : tensors_) all.push_back(name);
        return all;
    }
    bool contains(const std::string& name) const { return tensors_.count(name) > 0; }
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

    /// @throws std::runtime_error when there is no such tensor
    const std::vector<std::size_t>& shape(const std::string& name) const { return tensor(name).shape; }
    /// `F32`, `F64`, `F16`, `BF16`, `I64`, ...
    /// @throws std::runtime_error when there is no such tensor
    std::string_view dtype(const std::string& name) const { return tensor(name).type->name; }

    /// Whether every number of the tensor is a T: float holds F32, F16 and BF16, double these and F64, std::int64_t
    /// I64.
    /// @throws std::runtime_error when there is no such tensor
    template <class T>
    bool holds(const std::string& name) const {
        const std::string_view from = dtype(name), to = detail::dtype_of<T>();
        const bool half = from == "F16" || from == "BF16";
        return from == to || (std::is_floating_point_v<T> && half) || (to == "F64" && from == "F32");
    }

    /// Copies the tensor `into.name` to `into.entries`.
    /// @throws std::runtime_error when there is no such tensor, or it has another shape or numbers that T has not
    template <class T>
    void read(const NamedTensor<T>& into) {
        const std::string& name = into.name;
        detail::require(detail::has_count(into.shape, into.entries.size()), "safetensors", [&] {
            return "'" + name + "' has room for " + std::to_string(into.entries.size()) + " entries, its shape is " +
                   detail::shape_text(into.shape);
        });
        if (shape(name) != into.shape)
            fail(name + " has shape " + detail::shape_text(shape(name)) + ", expected " +
                 detail::shape_text(into.shape));
        if (!holds<T>(name))
            fail(name + " has type " + std::string(dtype(name)) + ", expected " + std::string(detail::dtype_of<T>()));
        stream_.clear();
        stream_.seekg(static_cast<std::streamoff>(data_ + tensor(name).begin));
        const std::string_view from = dtype(name);
        if (from == detail::dtype_of<T>())
            read_bytes(reinterpret_cast<char*>(into.entries.data()), into.entries.size_bytes());
        else if constexpr (std::is_floating_point_v<T>) {
            if (from == "F16") read_converted<std::uint16_t>(into.entries, detail::from_half);
            else if (from == "BF16") read_converted<std::uint16_t>(into.entries, detail::from_brain_float);
            else read_converted<float>(into.entries, [](float entry) { return static_cast<T>(entry); });
        }
    }

private:
    struct Tensor {
        const detail::ElementType* type;
        std::vector<std::size_t> shape;
        std::uint64_t begin, end;  // in bytes, from where the header ends
    };

    [[noreturn]] void fail(const std::string& sentence) const {
        throw std::runtime_error("safetensors file '" + path_.string() + "': " + sentence);
    }

    const Tensor& tensor(const std::string& name) const {
        const auto found = tensors_.find(name);
        if (found == tensors_.end()) fail("it has no tensor '" + name + "'");
        return found->second;
    }

    void read_bytes(char* to, std::size_t count) {
        if (!stream_.read(to, static_cast<std::streamsize>(count))) fail("it cannot be read to its end");
    }
    template <class Stored, class T, class Convert>
    void read_converted(std::span<T> entries, const Convert& convert) {
        std::vector<Stored> part(std::min<std::size_t>(entries.size(), 4096));
        for (std::size_t done = 0; done < entries.size(); done += part.size()) {
            part.resize(std::min(part.size(), entries.size() - done));
            read_bytes(reinterpret_cast<char*>(part.data()), part.size() * sizeof(Stored));
            for (std::size_t i = 0; i < part.size(); ++i) entries[done + i] = static_cast<T>(convert(part[i]));
        }
    }

    /// Names that appear twice, of which a JSON library keeps one, and deep nesting, which only an attack has, end the
    /// parsing at once.
    nlohmann::json parse(const std::string& header) const {
        using Event = nlohmann::json::parse_event_t;
        std::vector<std::set<std::string>> names;
        const auto check = [&](int depth, Event event, nlohmann::json& value) {
            if ((event == Event::object_start || event == Event::array_start) && depth > 2)
                fail("its header is nested too deeply");
            if (event == Event::object_start) names.emplace_back();
            if (event == Event::object_end) names.pop_back();
            if (event == Event::key && !names.back().insert(value.get<std::string>()).second)
                fail("'" + value.get<std::string>() + "' appears twice in its header");
            return true;
        };
        // A JSON library may stop at a 0, or pass over what stands before the brace.
        if (!header.starts_with('{') || header.find('\0') != std::string::npos) fail("its header is not JSON");
        nlohmann::json json = nlohmann::json::parse(header, check, false);
        if (json.is_discarded()) fail("its header is not JSON");
        return json;
    }

    void add_metadata(const nlohmann::json& json) {
        if (!json.is_object()) fail("its metadata is no object");
        for (const auto& [key, value] : json.items()) {
            if (!value.is_string()) fail("its metadata '" + key + "' is no string");
            metadata_[key] = value.get<std::string>();
        }
    }

    void add_tensor(const std::string& name, const nlohmann::json& json) {
        const auto member = [&](const char* key) {
            const auto found = json.find(key);  // the end when json is no object
            if (found == json.end()) fail("'" + name + "' has no " + key);
            return found;
        };
        const auto whole_numbers = [&](const char* key) {
            const auto found = member(key);
            const bool whole = found->is_array() && std::all_of(found->begin(), found->end(), [](const auto& entry) {
                                   return entry.is_number_unsigned();
                               });
            if (!whole) fail("the " + std::string(key) + " of '" + name + "' is no list of whole numbers");
            return found->template get<std::vector<std::size_t>>();
        };
        const auto dtype = member("dtype");
        const detail::ElementType* type =
            dtype->is_string() ? detail::find_element_type(dtype->get_ref<const std::string&>()) : nullptr;
        if (!type) fail("'" + name + "' has the unknown dtype " + dtype->dump(-1, ' ', true));
        const std::vector<std::size_t> offsets = whole_numbers("data_offsets");
        if (offsets.size() != 2 || offsets[0] > offsets[1])
            fail("the data_offsets of '" + name + "' are no begin and end");
        const Tensor tensor{type, whole_numbers("shape"), offsets[0], offsets[1]};
        std::uint64_t bytes = type->bytes;
        for (const std::size_t extent : tensor.shape)
            if (!detail::multiply(bytes, extent))
                fail("'" + name + "' has shape " + detail::shape_text(tensor.shape) + ", more than any file holds");
        if (bytes != tensor.end - tensor.begin)
            fail("'" + name + "' has shape " + detail::shape_text(tensor.shape) + " and type " +
                 std::string(type->name) + ", " + std::to_string(bytes) + " bytes, and its data_offsets span " +
                 std::to_string(tensor.end - tensor.begin));
        tensors_.emplace(name, tensor);
    }

    /// One tensor must begin where another ends, and the last one where the file does.
    void check_layout(std::uint64_t size) const {
        std::vector<std::pair<const std::string*, const Tensor*>> ordered;
        for (const auto& [name, tensor] : tensors_) ordered.emplace_back(&name, &tensor);
        std::ranges::sort(ordered, {},
                          [](const auto& entry) { return std::pair(entry.second->begin, entry.second->end); });
        std::uint64_t end = 0;
        for (const auto& [name, tensor] : ordered) {
            if (tensor->begin != end)
                fail("'" + *name + "' begins at byte " + std::to_string(tensor->begin) +
                     " of the data, where the tensor before it ends at " + std::to_string(end));
            end = tensor->end;
        }
        if (end != size)
            fail("its tensors end at byte " + std::to_string(end) + " of the data, and it has " + std::to_string(size));
    }

    std::filesystem::path path_;
    std::ifstream stream_;
    std::uint64_t data_ = 0;  // where the header ends
    std::map<std::string, Tensor> tensors_;
    std::map<std::string, std::string> metadata_;
};

}  // namespace normplace
